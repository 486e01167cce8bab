// The demo's own measuring beside the script: space every few milliseconds, the host's blocks twice a second. A sample that says
// nothing new is left out.
import type { RunClock } from "./run-clock.ts";
import type { RunLog } from "./run-log.ts";
import { allocatedBytesUnder, type SpaceReader } from "./space.ts";

export interface Sampling {
  /** To be called before an unmount: afterwards the path would show the host's own filesystem. */
  stopSpace(): void;
  /** With a last look at the host's blocks. */
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
  const sample = (): void => {
    const space = places.readSpace();
    const atMs = clock.nowMs();
    const last = log.points.at(-1);
    const news =
      last === undefined ||
      last.capacityBytes !== space.capacityBytes ||
      last.availableBytes !== space.availableBytes ||
      atMs - last.atMs >= UNCHANGED_INTERVAL_MS;
    if (news) log.points.push({ atMs, ...space });
  };
  const sampleHost = (): void => {
    log.hostPoints.push({ atMs: clock.nowMs(), bytes: allocatedBytesUnder(places.backingDirectory) });
  };
  const spaceTimer = setInterval(sample, places.intervalMs);
  const hostTimer = setInterval(sampleHost, HOST_INTERVAL_MS);
  return {
    stopSpace: () => clearInterval(spaceTimer),
    stop: () => {
      clearInterval(spaceTimer);
      clearInterval(hostTimer);
      sampleHost();
    },
  };
}
