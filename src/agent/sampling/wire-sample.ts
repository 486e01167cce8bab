// One volume's newest reading as the policy-engine gets it: pure.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { SampledReading, VolumeState } from "../volumes/volume-state.ts";

export interface NodeMeasures {
  /** Free bytes where members are made; undefined: not measured yet. */
  readonly freeBytes: number | undefined;
  readonly ioUtilizationRatio: number;
}

/** What a node's own disk has bounds no filesystem whose members come from elsewhere. */
export const UNBOUNDED_BYTES = 2 ** 50;

/** Older readings are sent to nobody: an engine counts the age of what it gets from when it comes. */
const RECENT_MS = 10_000;

export function isRecent(reading: SampledReading | undefined, monotonicMs: number): boolean {
  return reading !== undefined && monotonicMs - reading.takenMs < RECENT_MS;
}

/** Undefined while there is no reading, no size that belongs to it, or no figure of the node: 0 would be taken for a full one. */
export function wireSample(state: VolumeState, { freeBytes, ioUtilizationRatio }: NodeMeasures): Sample | undefined {
  const { handle, reading, sizeBytes, record } = state;
  const nodeFreeBytes = record.backend === "span" ? UNBOUNDED_BYTES : freeBytes;
  if (reading === undefined || sizeBytes === undefined || nodeFreeBytes === undefined) return undefined;
  const { takenMs, ...figures } = reading;
  const isAfterLast = takenMs >= state.operationEndedMs;
  return {
    ...figures,
    volumeHandle: handle,
    sizeBytes,
    operationInProgress: state.running !== undefined,
    // Its name, as the layout's status has it: whatever this node's clock showed then and shows now.
    lastOperationEndedAtMs: isAfterLast ? Date.parse(record.lastOperation?.endedAt ?? "") || 0 : 0,
    ioUtilizationRatio,
    nodeFreeBytes,
  };
}
