// The last report of LVM, and when the next one is made: never two at once, soon after a change, and not at all while nothing happens.
import type { Logger } from "../../process/log.ts";
import { createReportAsking } from "./ask-for-report.ts";
import type { Lvm } from "./lvm.ts";
import type { OwnChange } from "./own-change.ts";
import { createPredictedReport } from "./predicted-report.ts";
import { createQuietTimer } from "./quiet-timer.ts";
import type { Report } from "./report.ts";

export interface ReportCache {
  /** With all that lvmd has done since; undefined before the first one. */
  latest(): Report | undefined;
  /** One that was begun after this call. Throws LvmError. */
  fresh(): Promise<Report>;
  /** Resolves when the one that is being made now or is due, if any, is there or has failed. */
  settled(): Promise<void>;
  /** lvmd has done this: it shows at once, and a report follows when it is quiet. */
  note(change: OwnChange): void;
  /** Somebody may have changed something: a report follows when it is quiet. */
  expectChange(): void;
  /** Called right before LVM is asked. */
  onAsk(listener: () => void): void;
  /** Called after each change of what `latest` gives, and of `problem`. */
  onChange(listener: () => void): void;
  /** Why the last attempt at a report failed. */
  problem(): string | undefined;
  stop(): void;
}

/** `isBusy`: a command of LVM runs or waits, so that it is not quiet yet. */
export function createReportCache(lvm: Pick<Lvm, "query">, isBusy: () => boolean, log: Logger): ReportCache {
  const listeners: (() => void)[] = [];
  const { ask, onAsk } = createReportAsking(lvm);
  const quiet = createQuietTimer(isBusy, () => {
    fresh().catch((err: unknown) => log.warn({ err }, "LVM gave no report"));
  });
  const report = createPredictedReport();
  let problem: string | undefined;
  let running: Promise<Report> | undefined;
  let next: Promise<Report> | undefined;
  let waiters: (() => void)[] = [];

  const tell = (): void => {
    for (const listener of listeners) listener();
  };
  const begin = async (): Promise<Report> => {
    quiet.clear();
    try {
      const renewed = await report.renew(ask);
      problem = undefined;
      return renewed;
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
      throw error;
    } finally {
      running = undefined;
      const waited = waiters;
      waiters = [];
      tell();
      for (const resolve of waited) resolve();
    }
  };
  const start = (): Promise<Report> => {
    // Whoever has heard of the former one may have begun this one already.
    running ??= begin();
    return running;
  };
  const fresh = (): Promise<Report> => {
    if (running === undefined) return start();
    next ??= running
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        return start();
      });
    return next;
  };
  return {
    latest: report.latest,
    fresh,
    settled: () => {
      if (running === undefined && !quiet.isSet()) return Promise.resolve();
      return new Promise((resolve) => waiters.push(resolve));
    },
    note: (change) => {
      report.note(change);
      quiet.expect();
      tell();
    },
    expectChange: quiet.expect,
    onAsk,
    onChange: (listener) => listeners.push(listener),
    problem: () => problem,
    stop: () => {
      quiet.clear();
      for (const resolve of waiters) resolve();
    },
  };
}
