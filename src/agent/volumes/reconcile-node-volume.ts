// One look at one volume, from gathering to reporting: what the layout wants, what the node has, what to do, what to say.

import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { readGrant } from "../../contracts/kinds/grant.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { operationFor } from "../apply/record-operation.ts";
import type { OperationRunner } from "../apply/run-operation.ts";
import { isToBeSettled, settleSize } from "../apply/settle-size.ts";
import type { Staging } from "../apply/staging.ts";
import { grantRead } from "../decide/decide-emergency.ts";
import { decideOperation, type OperationDecision } from "../decide/decide-operation.ts";
import { recordWithLayout } from "../gather/layout-record.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import { noteReadOnly } from "../gather/mount-watches.ts";
import { factsOf, GROWTH_LOOK_MS, layoutOnThisNode, nextLookMs, pausedBytes } from "../gather/operation-facts.ts";
import type { StatusReporter } from "../report/status-reporter.ts";
import type { Sampler } from "../sampling/sampler.ts";
import type { Storage } from "../storage/storage.ts";
import type { NodeRecords } from "./node-records.ts";
import { NodeVolume, saveRecord, type VolumesByHandle } from "./node-volume.ts";
import { type NodeVolumeState, newVolumeState, volumeOf } from "./volume-state.ts";

export interface ReconcileEnvironment {
  readonly nodeName: string;
  readonly volumes: VolumesByHandle;
  readonly layouts: ReadableStore<FilesystemLayout>;
  /** False until the API server has been heard. */
  readonly layoutsKnown: () => boolean;
  readonly storage: Storage;
  readonly records: NodeRecords;
  readonly staging: Staging;
  readonly runner: OperationRunner;
  readonly sampler: Sampler;
  readonly reporter: StatusReporter;
  readonly clock: Clock;
  /** Of the machine, at present. */
  readonly bootID: string;
  readonly log: Logger;
}

/** A layout that changes during each of so many measurements is decided on later: its measure is never that of another layout. */
const MEASURES_MAX = 5;
const CHANGING_LOOK_MS = 1000;

interface MeasuredLayout {
  readonly layout: FilesystemLayout | undefined;
  /** False: it has changed during each measurement, so nothing may be decided by this one. */
  readonly isOfNow: boolean;
}

/** Rejects when something outside failed; the queue then tries again, at longer and longer intervals. */
export async function reconcileNodeVolume(environment: ReconcileEnvironment, handle: string): Promise<Outcome> {
  try {
    return await lookOnce(environment, handle);
  } catch (error) {
    // The status says what stops the volume. Whether or not the report succeeds, the original error is thrown.
    await environment.reporter.report(handle).catch(() => {});
    throw error;
  }
}

async function lookOnce(environment: ReconcileEnvironment, handle: string): Promise<Outcome> {
  const { storage, records, staging, reporter, clock, log } = environment;
  const volume = await trackedVolume(environment, handle, layoutOnThisNode(environment, handle));
  if (volume === undefined) return "done";
  if (volume.state.recordProblem !== undefined && volume.state.recorded) await saveRecord(records, volume, "PowerCut");
  await staging.adopt(volume);
  noteReadOnly(volume, clock.nowMs());
  let measured = await measureForLayout(environment, volume);
  let mayDecide = measured.isOfNow;
  // A member that is missing has nothing to agree with its filesystem about.
  if (mayDecide && volume.state.sizeBytes !== undefined && isToBeSettled(volume.state)) {
    const isSettled = await settleSize(storage, volume);
    measured = await measureForLayout(environment, volume);
    mayDecide = isSettled && measured.isOfNow;
  }
  const { layout } = measured;
  const possible = storage.shrinksUnmounted(volumeOf(volume.state.record));
  volume.dispatch({ type: "UnmountedShrinksKnown", possible });
  // From here to the start of an operation nothing is awaited: the facts are still true when it starts. While a volume is being released,
  // an interrupted operation is ended there, and reported after that.
  const { state } = volume;
  const isLettingGo = state.closing && state.running === undefined;
  if (mayDecide && !isLettingGo) {
    const decision = decideOperation(factsOf(environment, state, layout));
    log.debug({ volume: handle, decision }, "decided");
    await carryOutDecision(environment, volume, decision);
  }
  await reporter.report(handle);
  if (layout === undefined && environment.layoutsKnown()) await forgetDeleted(environment, volume);
  if (!measured.isOfNow) return { againAfterMs: CHANGING_LOOK_MS };
  const againAfterMs = nextLook(volume.state, environment.clock.monotonicMs());
  return againAfterMs === undefined ? "done" : { againAfterMs };
}

/** Undefined: whatever changes next is announced by an event. */
function nextLook(state: NodeVolumeState, monotonicMs: number): number | undefined {
  const isPaused = state.running === undefined && pausedBytes(state, monotonicMs) > 0;
  const looks = [isPaused ? GROWTH_LOOK_MS : undefined, nextLookMs(state, monotonicMs)];
  const known = looks.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** What came before may have taken long: measures, and returns the layout of now, on record, that the measure belongs to. */
async function measureForLayout(environment: ReconcileEnvironment, volume: NodeVolume): Promise<MeasuredLayout> {
  const { handle } = volume;
  for (let round = 1; ; round += 1) {
    const layout = layoutOnThisNode(environment, handle);
    await trackedVolume(environment, handle, layout);
    const { lastOperation } = volume.state.record;
    await measureVolume(environment.storage, volume);
    // An emergency may have run during the measurement, and have taken in what was not found.
    const isSameOperation = volume.state.record.lastOperation === lastOperation;
    const isOfNow = isSameOperation && layoutOnThisNode(environment, handle) === layout;
    if (isOfNow || round >= MEASURES_MAX) return { layout, isOfNow };
  }
}

/** A volume that this node has, or is to have; brought up to date with the layout. */
async function trackedVolume(
  { volumes, records, sampler, clock, bootID }: ReconcileEnvironment,
  handle: string,
  layout: FilesystemLayout | undefined,
): Promise<NodeVolume | undefined> {
  const known = volumes.get(handle);
  if (layout === undefined) return known;
  const read = recordWithLayout(layout, known?.state.record);
  const record = { ...read, grantRead: grantRead(read.grant, read.grantRead, clock.monotonicMs(), bootID) };
  const volume = known ?? new NodeVolume(newVolumeState(record, false));
  volumes.set(handle, volume);
  const changed = JSON.stringify(volume.state.record) !== JSON.stringify(record);
  volume.dispatch({ type: "LayoutRead", record });
  sampler.setMinAvailable(handle, record.grant === undefined ? 0 : readGrant(record.grant).minAvailableBytes);
  if (changed && volume.state.recorded) await saveRecord(records, volume, "PowerCut");
  return volume;
}

async function carryOutDecision(
  environment: ReconcileEnvironment,
  volume: NodeVolume,
  decision: OperationDecision,
): Promise<void> {
  const { runner, staging, reporter, clock, layouts } = environment;
  const { handle, state } = volume;
  if (decision.act === "Refuse" && state.targetRefusal !== decision.message)
    reporter.warn(state, "StaleEpoch", decision.message);
  volume.dispatch({ type: "Decided", refusal: decision.act === "Refuse" ? decision.message : undefined });
  switch (decision.act) {
    case "Nothing":
    case "Refuse":
      return;
    case "Start":
      return runner.start(volume, operationFor(decision, clock.nowMs()), "Anew");
    case "Resume":
      return runner.start(volume, decision.operation, "Resumed");
    case "Abandon":
      return runner.abandon(volume, decision.operation, decision.message);
    case "CancelShrink":
      // Its end wakes this volume again, so this does not wait.
      return volume.cancel({ because: "TargetChanged", decision: decision.message });
    case "RemoveMember":
      return staging.remove(volume, layouts.get(handle));
    case "ReleaseMembers":
      // One whose driver never takes it back keeps no emergency from its spare.
      return staging
        .releaseMembers(volume)
        .finally(() => (decision.spareToPrepare ? prepareSpares(environment, volume) : undefined));
    case "PrepareSpares":
      return prepareSpares(environment, volume);
  }
}

/** The spare's driver may take long, so what has ended before is reported first. */
async function prepareSpares({ staging, reporter, layouts }: ReconcileEnvironment, volume: NodeVolume): Promise<void> {
  await reporter.report(volume.handle);
  return staging.prepareSpares(volume, layouts.get(volume.handle));
}

/** Forgets a volume whose layout is gone and of which the node holds nothing. What holds data stays. */
async function forgetDeleted({ volumes, records, storage }: ReconcileEnvironment, volume: NodeVolume): Promise<void> {
  const { handle, state } = volume;
  if (state.mounted !== undefined || state.sizeBytes !== undefined || state.running !== undefined) return;
  if (state.record.backend === "span") {
    // Its members may be on another node by now, where they change.
    if (state.record.stagingPath !== undefined) return;
    await storage.remove(volumeOf(state.record));
  } else if (state.record.memberMade && state.phase !== "Removed") return;
  volumes.delete(handle);
  if (volume.state.recorded) await records.remove(handle);
}
