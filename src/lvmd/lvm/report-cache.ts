// The last report of LVM, and when the next one is made: never two at once, soon after a change, and not at all while nothing happens.
import type { Logger } from "../../platform/process/log.ts";
import type { Lvm } from "./lvm.ts";
import { LvmError } from "./lvm-error.ts";
import { createPredictedReport, type OwnChange, parseReport, REPORT_ARGUMENTS, type Report } from "./report.ts";

export interface ReportCache {
  /** With all that lvmd has done since; undefined before the first one. */
  latest(): Report | undefined;
  /** One that was begun after this call. Throws LvmError. */
  fresh(): Promise<Report>;
  /** Resolves when the one that is being made now or is due, if any, is there or has failed. */
  settled(): Promise<void>;
  /** lvmd has done this: it shows at once, and a report follows when it is quiet. */
  note(change: OwnChange): void;
  /** A change is possible: a report follows when it is quiet. */
  expectChange(): void;
  /** Called right before LVM is asked. */
  onAsk(listener: () => void): void;
  /** Called after each change of what `latest` gives, and of `problem`. */
  onChange(listener: () => void): void;
  /** Why the last attempt at a report failed. */
  problem(): string | undefined;
  stop(): void;
}

/** The report that is being made, and the one that was asked for since. */
interface Making {
  /** Sets `running` back once it has ended. */
  readonly begin: () => Promise<Report>;
  running: Promise<Report> | undefined;
  next: Promise<Report> | undefined;
}

/** `isBusy`: a command of LVM runs or waits, so that it is not quiet yet. */
export function createReportCache(lvm: Pick<Lvm, "query">, isBusy: () => boolean, log: Logger): ReportCache {
  const listeners: (() => void)[] = [];
  const { ask, onAsk } = createReportAsking(lvm);
  const quiet = createQuietTimer(isBusy, () => {
    fresh(making).catch((err: unknown) => log.warn({ err }, "LVM gave no report"));
  });
  const report = createPredictedReport();
  let problem: string | undefined;
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
      making.running = undefined;
      const waited = waiters;
      waiters = [];
      tell();
      for (const resolve of waited) resolve();
    }
  };
  const making: Making = { begin, running: undefined, next: undefined };
  return {
    latest: report.latest,
    fresh: () => fresh(making),
    settled: () => {
      if (making.running === undefined && !quiet.isSet()) return Promise.resolve();
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

function fresh(making: Making): Promise<Report> {
  if (making.running === undefined) return start(making);
  making.next ??= making.running
    .catch(() => undefined)
    .then(() => {
      making.next = undefined;
      return start(making);
    });
  return making.next;
}

function start(making: Making): Promise<Report> {
  // A caller that heard of the former one may have started this one already.
  making.running ??= making.begin();
  return making.running;
}

/** Asks LVM for a report. The program may hang: none starts while an earlier one runs. */
interface ReportAsking {
  /** Throws LvmError. */
  ask(): Promise<Report>;
  /** Called right before LVM is asked. */
  onAsk(listener: () => void): void;
}

function createReportAsking(lvm: Pick<Lvm, "query">): ReportAsking {
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

// When a report follows what may have changed: as soon as it is quiet, and not much later where it never is.

export interface QuietTimer {
  /** Something may have changed. */
  expect(): void;
  /** A report that shows all of it is begun. */
  clear(): void;
  isSet(): boolean;
}

/** A command that follows at once should not have to share the processor with a report. */
const QUIET_MS = 100;
/** Predictions are corrected after this at the latest. */
const LATEST_MS = 2000;

/** `isBusy`: it is not quiet yet. `due` is called when a report is to be begun. */
export function createQuietTimer(isBusy: () => boolean, due: () => void): QuietTimer {
  let timer: NodeJS.Timeout | undefined;
  let sinceMs: number | undefined;
  const ring = (): void => {
    if (isBusy() && performance.now() < (sinceMs ?? 0) + LATEST_MS) expect();
    else due();
  };
  const expect = (): void => {
    const nowMs = performance.now();
    sinceMs ??= nowMs;
    clearTimeout(timer);
    timer = setTimeout(ring, Math.max(0, Math.min(QUIET_MS, sinceMs + LATEST_MS - nowMs)));
  };
  return {
    expect,
    clear: () => {
      clearTimeout(timer);
      timer = undefined;
      sinceMs = undefined;
    },
    isSet: () => timer !== undefined,
  };
}
