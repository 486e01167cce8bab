// One volume's newest reading as the policy-engine gets it: pure.
import type { Sample } from "../gen/tidemark/samples/v1/samples.ts";
import type { VolumeState } from "./volume-state.ts";

export interface NodeMeasures {
  /** Free bytes where members are made; undefined: not measured yet. */
  readonly freeBytes: number | undefined;
  readonly ioUtilizationRatio: number;
}

/** What a node's own disk has bounds no filesystem whose members come from elsewhere. */
export const UNBOUNDED_BYTES = 2 ** 50;

/** Undefined while there is no reading, no size that belongs to it, or no figure of the node: 0 would be taken for a full one. */
export function wireSample(state: VolumeState, { freeBytes, ioUtilizationRatio }: NodeMeasures): Sample | undefined {
  const { handle, reading, sizeBytes } = state;
  const nodeFreeBytes = state.record.backend === "span" ? UNBOUNDED_BYTES : freeBytes;
  if (reading === undefined || sizeBytes === undefined || nodeFreeBytes === undefined) return undefined;
  return {
    ...reading,
    volumeHandle: handle,
    sizeBytes,
    operationInProgress: state.running !== undefined,
    lastOperationEndedAtMs: state.operationEndedAtMs,
    ioUtilizationRatio,
    nodeFreeBytes,
  };
}
