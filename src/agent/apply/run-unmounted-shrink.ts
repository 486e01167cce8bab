// Carries out one shrink of a filesystem that nobody has mounted, from its record to its end. It decides nothing.
import type { Operation } from "../../api/filesystem-layout.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { UnmountedShrinkResult } from "../storage/storage.ts";
import { type RunningOperation, type VolumeState, volumeOf } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";
import {
  type End,
  finish,
  messageOf,
  type OperationEnvironment,
  presentReserve,
  recordStart,
  revoke,
} from "./record-operation.ts";

/** An API server that does not answer keeps nobody from mounting the volume again for longer. */
const RECORD_LIMIT_MS = 10_000;

/** See OperationRunner. */
export async function shrinkUnmounted(
  environment: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
): Promise<void> {
  const { handle } = state;
  const cancel = new AbortController();
  const recorded = recordStart(environment, state, operation);
  const work = withTimeLimit(recorded, RECORD_LIMIT_MS, `recording the shrink of volume ${handle}`).then(
    () => {
      running.begun = true;
      return carryOutUnmounted(environment, state, operation, cancel.signal);
    },
    async (err: unknown) => {
      environment.log.warn({ volume: handle, err }, "a shrink could not be recorded, and does not begin");
      await revoke(environment, state);
    },
  );
  const ended = work.catch(() => undefined);
  const startedMs = environment.clock.monotonicMs();
  const running: RunningOperation = { operation, cancel, ended, startedMs, begun: false };
  state.running = running;
  await work;
}

async function carryOutUnmounted(
  environment: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
  signal: AbortSignal,
): Promise<void> {
  const { storage, log } = environment;
  log.info({ volume: state.handle, operation }, "Shrink of the unmounted filesystem begins");
  try {
    const result = await storage.shrinkUnmounted(volumeOf(state.record), parseQuantity(operation.to), {
      signal,
      reserveBytes: () => presentReserve(state),
      onStep: () => undefined,
    });
    await finish(environment, state, operation, endOfUnmounted(result));
  } catch (error) {
    log.error({ volume: state.handle, operation, err: error }, "Shrink of the unmounted filesystem failed");
    const sizeBytes = state.sizeBytes ?? parseQuantity(operation.from);
    await finish(environment, state, operation, { outcome: "Failed", message: messageOf(error), sizeBytes });
    throw error;
  }
}

function endOfUnmounted(result: UnmountedShrinkResult): End {
  const { sizeBytes } = result;
  switch (result.outcome) {
    case "Succeeded":
      return { outcome: "Succeeded", sizeBytes };
    case "Refused":
      return { outcome: "Cancelled", reason: "ShrinkNotCrashSafe", message: result.message, sizeBytes };
    case "FloorReached":
      return { outcome: "FloorReached", reason: "ShrinkFloorReached", message: result.message, sizeBytes };
  }
}
