// An ordinary claim's newest reading as the policy-engine gets it: pure.
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import { UNBOUNDED_BYTES } from "../sampling/wire-sample.ts";
import type { SampledReading } from "../volumes/volume-state.ts";
import type { MountedClaim } from "./find-claims.ts";

export function claimSample({ handle, sizeBytes }: MountedClaim, reading: SampledReading): Sample {
  const { takenMs: _taken, ...figures } = reading;
  return {
    ...figures,
    volumeHandle: handle,
    sizeBytes,
    // What its driver does to it, its claim tells.
    operationInProgress: false,
    lastOperationEndedAtMs: 0,
    ioUtilizationRatio: 0,
    nodeFreeBytes: UNBOUNDED_BYTES,
  };
}
