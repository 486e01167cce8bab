// The last report, with what lvmd itself has done since LVM was asked for it: that may not be in it.
import { type OwnChange, withOwnChange } from "./own-change.ts";
import type { Report } from "./report.ts";

export interface PredictedReport {
  /** Undefined: there was none yet. */
  latest(): Report | undefined;
  note(change: OwnChange): void;
  /** Takes what `ask` reports in place of the last one; throws what it throws. Not to be called twice at once. */
  renew(ask: () => Promise<Report>): Promise<Report>;
}

export function createPredictedReport(): PredictedReport {
  let latest: Report | undefined;
  /** Undefined: LVM is not asked now. */
  let since: OwnChange[] | undefined;
  return {
    latest: () => latest,
    note: (change) => {
      since?.push(change);
      if (latest !== undefined) latest = withOwnChange(latest, change);
    },
    renew: async (ask) => {
      const meanwhile: OwnChange[] = [];
      since = meanwhile;
      try {
        latest = meanwhile.reduce(withOwnChange, await ask());
        return latest;
      } finally {
        since = undefined;
      }
    },
  };
}
