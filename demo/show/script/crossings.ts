// How long a filesystem stayed over the threshold before it was larger: the delay a writer depends on, from the demo's own samples, not
// from a report. Pure.
import { type EndedOperation, type SpacePoint, usedBytes } from "../run/run-log.ts";

export interface Crossing {
  readonly atMs: number;
  /** From the sample that crossed to the first sample with a larger capacity. */
  readonly durationMs: number;
  /** No sample saw it over the threshold: it counts from the last one under it, and was that long at most. */
  readonly betweenSamples: boolean;
  /** A shrink was under way: it had to be cancelled first. */
  readonly duringShrink: boolean;
}

/** One crossing for each time that use reached `thresholdRatio` and was answered by a larger size. */
export function findCrossings(
  points: readonly SpacePoint[],
  operations: readonly EndedOperation[],
  thresholdRatio: number,
): Crossing[] {
  const crossings: Crossing[] = [];
  let crossed: SpacePoint | undefined;
  let previous: SpacePoint | undefined;
  for (const point of points) {
    if (previous !== undefined && point.capacityBytes > previous.capacityBytes) {
      const unseen = crossed === undefined && usedBytes(point) >= thresholdRatio * previous.capacityBytes;
      const start = unseen ? previous : crossed;
      if (start !== undefined) crossings.push(crossingOf(start, point, unseen, operations));
      crossed = undefined;
    }
    const over = usedBytes(point) >= thresholdRatio * point.capacityBytes;
    if (!over) crossed = undefined;
    else crossed ??= point;
    previous = point;
  }
  return crossings;
}

function crossingOf(
  crossed: SpacePoint,
  larger: SpacePoint,
  betweenSamples: boolean,
  operations: readonly EndedOperation[],
): Crossing {
  const duringShrink = operations.some(
    ({ kind, startedAtMs, endedAtMs }) => kind === "Shrink" && startedAtMs <= larger.atMs && endedAtMs >= crossed.atMs,
  );
  return { atMs: crossed.atMs, durationMs: larger.atMs - crossed.atMs, betweenSamples, duringShrink };
}
