// The last report of LVM, and when the next one is made: never two at once, soon after a change, and not at all while nothing happens.
import type { Logger } from "../../process/log.ts";
import type { Lvm } from "./lvm.ts";
import { LvmError } from "./lvm-error.ts";
import { type OwnChange, withOwnChange } from "./own-change.ts";
import { parseReport, REPORT_ARGUMENTS, type Report } from "./report.ts";

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

/** A command that follows at once should not have to share the processor with a report. */
const QUIET_MS = 100;
/** Predictions are corrected after this at the latest. */
const LATEST_MS = 2000;

/** `isBusy`: a command of LVM runs or waits, so that it is not quiet yet. */
export function createReportCache(lvm: Pick<Lvm, "query">, isBusy: () => boolean, log: Logger): ReportCache {
  const listeners: (() => void)[] = [];
  const askListeners: (() => void)[] = [];
  let latest: Report | undefined;
  let problem: string | undefined;
  let hung: string | undefined;
  let running: Promise<Report> | undefined;
  let next: Promise<Report> | undefined;
  /** Of lvmd itself, since the running report was begun: it may not show them. */
  let since: OwnChange[] = [];
  let quietTimer: NodeJS.Timeout | undefined;
  let dirtySinceMs: number | undefined;
  let waiters: (() => void)[] = [];

  const tell = (): void => {
    for (const listener of listeners) listener();
  };
  const ask = async (): Promise<Report> => {
    if (hung !== undefined) throw new LvmError("Hung", `no report is made before this has ended: ${hung}`);
    for (const listener of askListeners) listener();
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
  };
  const begin = async (): Promise<Report> => {
    clearTimeout(quietTimer);
    quietTimer = undefined;
    dirtySinceMs = undefined;
    since = [];
    try {
      latest = since.reduce(withOwnChange, await ask());
      problem = undefined;
      return latest;
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
    running = begin();
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
  const refresh = (): void => {
    if (isBusy() && performance.now() < (dirtySinceMs ?? 0) + LATEST_MS) return expectChange();
    fresh().catch((err: unknown) => log.warn({ err }, "LVM gave no report"));
  };
  const expectChange = (): void => {
    const nowMs = performance.now();
    dirtySinceMs ??= nowMs;
    clearTimeout(quietTimer);
    quietTimer = setTimeout(refresh, Math.max(0, Math.min(QUIET_MS, dirtySinceMs + LATEST_MS - nowMs)));
  };
  return {
    latest: () => latest,
    fresh,
    settled: () => {
      if (running === undefined && quietTimer === undefined) return Promise.resolve();
      return new Promise((resolve) => waiters.push(resolve));
    },
    note: (change) => {
      if (running !== undefined) since.push(change);
      if (latest !== undefined) latest = withOwnChange(latest, change);
      expectChange();
      tell();
    },
    expectChange,
    onAsk: (listener) => askListeners.push(listener),
    onChange: (listener) => listeners.push(listener),
    problem: () => problem,
    stop: () => {
      clearTimeout(quietTimer);
      for (const resolve of waiters) resolve();
    },
  };
}
