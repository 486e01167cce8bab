// What is done about the size of a filesystem right after it was unmounted, in its queue: a pod that wants it mounted again
// waits.
import type { FilesystemLayout, Operation } from "../../contracts/kinds/filesystem-layout.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import { decideUnmountedShrink } from "../decide/decide-operation.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import { factsOf, layoutOnThisNode } from "../gather/operation-facts.ts";
import type { UnmountedShrinkResult } from "../storage/storage.ts";
import { unlessHung } from "../storage/storage-error.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { volumeOf } from "../volumes/volume-state.ts";
import {
  begin,
  type End,
  finish,
  messageOf,
  type OperationEnvironment,
  operationFor,
  presentReserve,
  revoke,
} from "./record-operation.ts";

export interface UnmountEnvironment extends OperationEnvironment {
  readonly nodeName: string;
  readonly layouts: Pick<ReadableStore<FilesystemLayout>, "get">;
  /** False until the API server has been heard. */
  readonly layoutsKnown: () => boolean;
}

/** The longest that an API server that does not answer delays the next mount of the volume. */
const RECORD_LIMIT_MS = 10_000;

/**
 * Ends an interrupted shrink, and makes the filesystem smaller where its layout asks for that now. Rejects where the outcome is unknown:
 * the agent then does not release the volume.
 */
export async function shrinkAtUnmount(environment: UnmountEnvironment, volume: NodeVolume): Promise<void> {
  const { storage, clock } = environment;
  const unmounted = volumeOf(volume.state.record);
  await storage.finishUnmounted(unmounted);
  if (storage.shrinksUnmounted(unmounted) !== true) return;
  const layout = layoutOnThisNode(environment, volume.handle);
  const notAfter = layout?.spec.target?.notAfter;
  // What is over is nothing to ask a node's lvmd for, which may be away.
  if (notAfter === undefined || !(clock.nowMs() < Date.parse(notAfter))) return;
  await measureVolume(storage, volume);
  const decision = decideUnmountedShrink(factsOf(environment, volume.state, layout), clock.nowMs());
  if (decision !== undefined) await shrinkUnmounted(environment, volume, operationFor(decision, clock.nowMs()));
}

/**
 * From its record to its end; with nothing done when it could not be recorded. Rejects where it is not known how it has ended: then storage
 * ends it before the next mount.
 */
async function shrinkUnmounted(
  environment: OperationEnvironment,
  volume: NodeVolume,
  operation: Operation,
): Promise<void> {
  const { handle } = volume;
  const { recorded, signal } = begin(environment, volume, operation);
  const work = unlessHung(recorded, RECORD_LIMIT_MS, `recording the shrink of volume ${handle}`).then(
    () => {
      volume.dispatch({ type: "OperationRecorded" });
      return shrinkToItsEnd(environment, volume, operation, signal);
    },
    async (err: unknown) => {
      environment.log.warn({ volume: handle, err }, "a shrink could not be recorded, and does not begin");
      await revoke(environment, volume);
    },
  );
  volume.operationEndsWith(work.catch(() => undefined));
  await work;
}

async function shrinkToItsEnd(
  environment: OperationEnvironment,
  volume: NodeVolume,
  operation: Operation,
  signal: AbortSignal,
): Promise<void> {
  const { storage, log } = environment;
  log.info({ volume: volume.handle, operation }, "Shrink of the unmounted filesystem begins");
  try {
    const result = await storage.shrinkUnmounted(volumeOf(volume.state.record), parseQuantity(operation.to), {
      signal,
      reserveBytes: () => presentReserve(volume.state),
      onStep: () => undefined,
    });
    await finish(environment, volume, operation, endOf(result));
  } catch (error) {
    log.error({ volume: volume.handle, operation, err: error }, "Shrink of the unmounted filesystem failed");
    const sizeBytes = volume.state.sizeBytes ?? parseQuantity(operation.from);
    await finish(environment, volume, operation, { outcome: "Failed", message: messageOf(error), sizeBytes });
    throw error;
  }
}

function endOf(result: UnmountedShrinkResult): End {
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
