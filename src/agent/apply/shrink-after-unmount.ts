// What is done about the size of a filesystem right after it was unmounted, in its lane: whoever wants it mounted again waits.
import { decideUnmountedShrink } from "../decide/decide-unmounted-shrink.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import {
  factsOf,
  layoutOnThisNode,
  operationFor,
  type ReconcileEnvironment,
} from "../volumes/reconcile-node-volume.ts";
import { type VolumeState, volumeOf } from "../volumes/volume-state.ts";
import type { OperationRunner } from "./run-operation.ts";

export interface UnmountEnvironment
  extends Pick<ReconcileEnvironment, "nodeName" | "layouts" | "layoutsKnown" | "storage" | "clock"> {
  readonly runner: Pick<OperationRunner, "shrinkUnmounted">;
}

/**
 * Ends what was interrupted, and makes the filesystem smaller where that is wanted now. Rejects where it is not known how that has ended: then
 * the volume is not let go of.
 */
export async function shrinkAtUnmount(environment: UnmountEnvironment, state: VolumeState): Promise<void> {
  const { storage, runner, clock } = environment;
  const volume = volumeOf(state.record);
  await storage.finishUnmounted(volume);
  if (storage.shrinksUnmounted(volume) !== true) return;
  const layout = layoutOnThisNode(environment, state.handle);
  const notAfter = layout?.spec.target?.notAfter;
  // What is over is nothing to ask a node's lvmd for, which may be away.
  if (notAfter === undefined || !(clock.nowMs() < Date.parse(notAfter))) return;
  await measureVolume(storage, state);
  const decision = decideUnmountedShrink(factsOf(environment, state, layout), clock.nowMs());
  if (decision !== undefined) await runner.shrinkUnmounted(state, operationFor(decision, clock.nowMs()));
}
