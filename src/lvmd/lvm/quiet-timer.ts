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
