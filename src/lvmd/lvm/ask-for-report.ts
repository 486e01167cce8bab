// Asks LVM for a report: a program that may hang, so that none is asked for while an earlier one has not ended.
import type { Lvm } from "./lvm.ts";
import { LvmError } from "./lvm-error.ts";
import { parseReport, REPORT_ARGUMENTS, type Report } from "./report.ts";

export interface ReportAsking {
  /** Throws LvmError. */
  ask(): Promise<Report>;
  /** Called right before LVM is asked. */
  onAsk(listener: () => void): void;
}

export function createReportAsking(lvm: Pick<Lvm, "query">): ReportAsking {
  const listeners: (() => void)[] = [];
  let hung: string | undefined;
  return {
    ask: async () => {
      if (hung !== undefined) throw new LvmError("Hung", `no report is made before this has ended: ${hung}`);
      for (const listener of listeners) listener();
      try {
        return parseReport(await lvm.query("fullreport", REPORT_ARGUMENTS));
      } catch (error) {
        if (error instanceof LvmError && error.code === "TimedOut") {
          hung = error.message;
          void error.gone.then(() => {
            hung = undefined;
          });
        }
        throw error;
      }
    },
    onAsk: (listener) => listeners.push(listener),
  };
}
