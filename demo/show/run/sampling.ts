// The demo's own measuring while the script runs: space every few milliseconds, the host's blocks twice a second. Samples that say nothing
// new are left out, except the last one before a change: it says how long nothing had changed.
import type { RunClock } from "./run-clock.ts";
import type { RunLog, SpacePoint } from "./run-log.ts";
import { allocatedBytesUnder, type SpaceReader } from "./space.ts";

export interface Sampling {
  /** To be called before an unmount: afterwards the path would show the host's own filesystem. */
  stopSpace(): void;
  /** With a last look at the host's blocks. Idempotent. */
  stop(): void;
}

const HOST_INTERVAL_MS = 500;
const UNCHANGED_INTERVAL_MS = 100;

export interface SampledPlaces {
  readonly readSpace: SpaceReader;
  readonly intervalMs: number;
  /** Where the backing files lie. */
  readonly backingDirectory: string;
}

export function startSampling(places: SampledPlaces, log: RunLog, clock: RunClock): Sampling {
  let leftOut: SpacePoint | undefined;
  const sample = (): void => {
    const space = places.readSpace();
    const point = { atMs: clock.nowMs(), ...space };
    const last = log.points.at(-1);
    const changed = last?.capacityBytes !== space.capacityBytes || last.availableBytes !== space.availableBytes;
    if (!changed && point.atMs - last.atMs < UNCHANGED_INTERVAL_MS) {
      leftOut = point;
      return;
    }
    if (changed && leftOut !== undefined) log.points.push(leftOut);
    leftOut = undefined;
    log.points.push(point);
  };
  const sampleHost = (): void => {
    log.hostPoints.push({ atMs: clock.nowMs(), bytes: allocatedBytesUnder(places.backingDirectory) });
  };
  const spaceTimer = setInterval(sample, places.intervalMs);
  const hostTimer = setInterval(sampleHost, HOST_INTERVAL_MS);
  let stopped = false;
  return {
    stopSpace: () => clearInterval(spaceTimer),
    stop: () => {
      if (stopped) return;
      stopped = true;
      clearInterval(spaceTimer);
      clearInterval(hostTimer);
      sampleHost();
    },
  };
}
