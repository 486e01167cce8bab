// One look at one volume, from gathering to reporting: what the layout wants, what the node has, what to do, what to say.
import type { FilesystemLayout, Operation } from "../../api/filesystem-layout.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { Outcome } from "../../kube/queue/work-queue.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { formatQuantity } from "../../units/quantity.ts";
import type { OperationRunner } from "../apply/run-operation.ts";
import { isToBeSettled, settleSize } from "../apply/settle-size.ts";
import type { Staging } from "../apply/staging.ts";
import { grantOf, grantRead } from "../decide/decide-emergency.ts";
import { decideOperation, type OperationDecision, type OperationFacts } from "../decide/decide-operation.ts";
import { GROWTH_LOOK_MS, membersNow, pausedBytes } from "../decide/growth-pause.ts";
import { isRemovalWanted, recordWithLayout, targetOf } from "../gather/layout-record.ts";
import { measureVolume } from "../gather/measure-volume.ts";
import { noteReadOnly } from "../gather/mount-watch.ts";
import { nextLookMs } from "../gather/span-facts.ts";
import type { StatusReporter } from "../report/status-reporter.ts";
import type { Sampler } from "../sampling/sampler.ts";
import type { Storage } from "../storage/storage.ts";
import type { NodeRecords } from "./node-records.ts";
import { saveRecord } from "./save-record.ts";
import { newVolumeState, type VolumeState, type VolumeStates, volumeOf } from "./volume-state.ts";

export interface ReconcileEnvironment {
  readonly nodeName: string;
  readonly states: VolumeStates;
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

/** Rejects when something outside failed; the queue then tries again, at longer and longer intervals. */
export async function reconcileVolume(environment: ReconcileEnvironment, handle: string): Promise<Outcome> {
  try {
    return await lookOnce(environment, handle);
  } catch (error) {
    // What keeps it from going on is for people to read. What is thrown is the cause, whether they could be told or not.
    await environment.reporter.report(handle).catch(() => {});
    throw error;
  }
}

async function lookOnce(environment: ReconcileEnvironment, handle: string): Promise<Outcome> {
  const { storage, records, staging, reporter, clock, log } = environment;
  const state = await trackedState(environment, handle, layoutOnThisNode(environment, handle));
  if (state === undefined) return "done";
  if (state.recordProblem !== undefined && state.recorded) await saveRecord(records, state, "PowerCut");
  await staging.adopt(state);
  noteReadOnly(state, clock.nowMs());
  let layout = await measureForLayout(environment, state);
  let mayDecide = true;
  // A member that is missing has nothing to agree with its filesystem about.
  if (state.sizeBytes !== undefined && isToBeSettled(state)) {
    mayDecide = await settleSize(storage, state);
    layout = await measureForLayout(environment, state);
  }
  state.shrinksUnmounted = storage.shrinksUnmounted(volumeOf(state.record));
  // From here to the start of an operation nothing is awaited: the facts are still true when it starts.
  // What was interrupted is ended while a volume is let go of, and is told after that.
  const isLettingGo = state.closing && state.running === undefined;
  if (mayDecide && !isLettingGo) {
    const decision = decideOperation(factsOf(environment, state, layout));
    log.debug({ volume: handle, decision }, "decided");
    await carryOut(environment, state, decision);
  }
  await reporter.report(handle);
  if (layout === undefined && environment.layoutsKnown()) await forgetDeleted(environment, state);
  const againAfterMs = nextLook(state, environment.clock.monotonicMs());
  return againAfterMs === undefined ? "done" : { againAfterMs };
}

/** Undefined: nothing changes by itself that nobody would say. */
function nextLook(state: VolumeState, monotonicMs: number): number | undefined {
  const isPaused = state.running === undefined && pausedBytes(state, monotonicMs) > 0;
  const looks = [isPaused ? GROWTH_LOOK_MS : undefined, nextLookMs(state, monotonicMs)];
  const known = looks.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

/** What came before may have taken long: measures, and returns the layout of now, on record, that the measure belongs to. */
async function measureForLayout(
  environment: ReconcileEnvironment,
  state: VolumeState,
): Promise<FilesystemLayout | undefined> {
  const { handle } = state;
  for (;;) {
    const layout = layoutOnThisNode(environment, handle);
    await trackedState(environment, handle, layout);
    const { lastOperation } = state.record;
    await measureVolume(environment.storage, state);
    // An emergency may have come and gone meanwhile, and have taken in what was not found.
    const isOfNow = state.record.lastOperation === lastOperation;
    if (isOfNow && layoutOnThisNode(environment, handle) === layout) return layout;
  }
}

export function layoutOnThisNode(
  { layouts, nodeName }: Pick<ReconcileEnvironment, "layouts" | "nodeName">,
  handle: string,
): FilesystemLayout | undefined {
  const layout = layouts.get(handle);
  return layout?.spec.nodeName === nodeName ? layout : undefined;
}

/** The state of a volume that this node has, or is to have; brought up to date with the layout. */
async function trackedState(
  { states, records, sampler, clock, bootID }: ReconcileEnvironment,
  handle: string,
  layout: FilesystemLayout | undefined,
): Promise<VolumeState | undefined> {
  const known = states.get(handle);
  if (layout === undefined) return known;
  const read = recordWithLayout(layout, known?.record);
  const record = { ...read, grantRead: grantRead(read.grant, read.grantRead, clock.monotonicMs(), bootID) };
  const state = known ?? newVolumeState(record, false);
  states.set(handle, state);
  const changed = JSON.stringify(state.record) !== JSON.stringify(record);
  state.record = record;
  sampler.setMinAvailable(handle, record.grant === undefined ? 0 : grantOf(record.grant).minAvailableBytes);
  if (changed && state.recorded) await saveRecord(records, state, "PowerCut");
  return state;
}

export function factsOf(
  { layoutsKnown, clock }: Pick<ReconcileEnvironment, "layoutsKnown" | "clock">,
  state: VolumeState,
  layout: FilesystemLayout | undefined,
): OperationFacts {
  const { record, running } = state;
  return {
    mounted: state.mounted !== undefined && !state.closing,
    readOnly: state.readOnlySinceMs !== undefined,
    sizeBytes: state.sizeBytes,
    layoutKnown: layoutsKnown() && layout !== undefined,
    // The claims of a span's members are the operator's to delete, once nothing is attached any more.
    removalWanted: record.backend !== "span" && layout !== undefined && isRemovalWanted(layout),
    removed: state.removed,
    shrinksOnlyUnmounted: record.fsType === "ext4",
    members: membersNow(state, clock.monotonicMs()),
    target: layout === undefined ? undefined : targetOf(layout),
    highestEpoch: record.epoch,
    endedDecidedAt: record.endedDecidedAt,
    running:
      running === undefined
        ? undefined
        : {
            kind: running.operation.kind,
            decidedAt: running.operation.decidedAt,
            cancelling: running.cancel.signal.aborted,
          },
    interrupted: running === undefined ? record.operation : undefined,
  };
}

async function carryOut(
  { runner, staging, reporter, clock, layouts }: ReconcileEnvironment,
  state: VolumeState,
  decision: OperationDecision,
): Promise<void> {
  if (decision.act === "Refuse" && state.refusal !== decision.message)
    reporter.warn(state, "StaleEpoch", decision.message);
  state.refusal = decision.act === "Refuse" ? decision.message : undefined;
  switch (decision.act) {
    case "Nothing":
    case "Refuse":
      return;
    case "Start":
      return runner.start(state, operationFor(decision, clock.nowMs()), "Anew");
    case "Resume":
      return runner.start(state, decision.operation, "Resumed");
    case "Abandon":
      return runner.abandon(state, decision.operation, decision.message);
    case "CancelShrink":
      // Its end wakes this volume again; nobody waits here.
      state.running?.cancel.abort(decision.message);
      return;
    case "RemoveMember":
      return staging.remove(state, layouts.get(state.handle));
    case "SettleMembers":
      return staging.settle(state);
    case "PrepareSpares":
      // Its driver may take long, and what has ended before is told meanwhile.
      await reporter.report(state.handle);
      return staging.prepareSpares(state, layouts.get(state.handle));
  }
}

export function operationFor(
  { kind, target, fromBytes, toBytes }: OperationDecision & { act: "Start" },
  nowMs: number,
): Operation {
  return {
    kind,
    from: formatQuantity(fromBytes),
    to: formatQuantity(toBytes),
    epoch: target.epoch,
    // What goes only a part of the way does not end the target.
    decidedAt: toBytes === target.sizeBytes ? target.decidedAt : undefined,
    startedAt: new Date(nowMs).toISOString(),
    step: kind === "Extend" ? "extending" : "shrinking",
  };
}

/** A volume whose layout is gone and of which the node holds nothing any more. What holds data is kept. */
async function forgetDeleted({ states, records, storage }: ReconcileEnvironment, state: VolumeState): Promise<void> {
  if (state.mounted !== undefined || state.sizeBytes !== undefined || state.running !== undefined) return;
  if (state.record.backend === "span") {
    // Its members may be on another node by now, where they change.
    if (state.record.stagingPath !== undefined) return;
    await storage.remove(volumeOf(state.record));
  } else if (state.record.memberMade && !state.removed) return;
  states.delete(state.handle);
  if (state.recorded) await records.remove(state.handle);
}
