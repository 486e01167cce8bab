// Spends a grant when a reading crosses its mark: in the handler of the sampler's message, with no round trip to any other process.
import type { Operation, OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import { type Grant, readGrant } from "../../contracts/kinds/grant.ts";
import { formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import { type Clock, instantOf } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import {
  type EmergencyFacts,
  isAlive,
  type ReachableGrant,
  reachableGrant,
  shouldSpendGrant,
} from "../decide/decide-emergency.ts";
import { isReadOnly } from "../gather/mount-watches.ts";
import { membersNow, promisedBytes } from "../gather/operation-facts.ts";
import { hasGrownTo } from "../storage/filesystem/mount-reader.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import type { NodeVolumeState } from "../volumes/volume-state.ts";
import type { OperationRunner } from "./run-operation.ts";

export interface EmergencyEnvironment {
  readonly runner: Pick<OperationRunner, "start">;
  readonly clock: Clock;
  /** Of the machine, at present. */
  readonly bootID: string;
  readonly log: Logger;
}

/** For an extend of another driver's members, before a spare is taken in its place. */
const PATIENCE_MS = 2000;
/** For a device that is to follow its volume, from the extend's begin: a disk that fills does not wait for as long as one that does not. */
export const DEVICE_PATIENCE_MS = 15_000;

/** Looks at the state's newest reading. Resolves when nothing is to be done, or the extend has begun; never rejects. */
export async function spendEmergency(
  { runner, clock, bootID, log }: EmergencyEnvironment,
  volume: NodeVolume,
): Promise<void> {
  const { handle, state } = volume;
  const { reading, record, sizeBytes } = state;
  if (record.grant === undefined || reading === undefined || sizeBytes === undefined) return;
  // What nearly every reading says, before anything that costs more.
  if (reading.availableBytes >= parseQuantity(record.grant.minAvailable)) return;
  if (!mayBegin(state)) return;
  // A reading from before the last operation's end says nothing about the present size.
  if (reading.takenMs < state.operationEndedMs) return;
  const { capacityBytes, availableBytes } = reading;
  const { emergencyRetryMs: retryMs } = state;
  const at = instantOf(clock);
  const { monotonicMs } = at;
  const isLate = isDriverLate(state, monotonicMs);
  const { grant, spares } = reachable(state, readGrant(record.grant), sizeBytes, { isLate, monotonicMs });
  const memberAhead =
    state.unsettled !== undefined && record.lastOperation?.outcome === "Failed" && !hasGrownTo(reading, sizeBytes);
  const facts = {
    monotonicMs,
    sizeBytes,
    capacityBytes,
    availableBytes,
    memberAhead,
    grant,
    alive: isAlive(record.grant, record.grantRead, at, bootID),
    // An extend that only waits gives way to the spare.
    running: isLate && spares.length > 0 ? undefined : begunKind(state),
    retryMs,
  };
  giveUpLateDevice(volume, facts, log);
  // Asked of the kernel now, and last: what the state says may be seconds old, and the room is wanted as soon as it can be had.
  if (!shouldSpendGrant(facts) || isReadOnly(state.mounted?.volume)) return;
  log.warn({ volume: handle, availableBytes, grant: record.grant }, "minAvailable is crossed: spending the grant");
  try {
    await volume.cancelAndWait({ because: "EmergencyExtend", availableBytes });
    const { running, closing } = volume.state;
    if (running !== undefined || closing) return; // the next reading looks again
    // Written with the operation: where that was possible, the next process goes on with the member, whatever ends this one.
    if (spares.length > 0) volume.dispatch({ type: "SparesTaken", names: spares });
    const operation = emergencyOperation(volume.state, grant.sizeBytes, record.grant.epoch, clock.nowMs());
    await runner.start(volume, operation, "Anew");
  } catch (err) {
    log.error({ volume: handle, err }, "the emergency extend could not begin");
  }
}

function mayBegin({ mounted, closing, running, record, problem }: NodeVolumeState): boolean {
  // Its file was cut by hand: each attempt would fail.
  if (record.backend === "loop" && problem?.reason === "MembersMissing") return false;
  return mounted !== undefined && !closing && running?.cancellation === undefined;
}

interface Waiting {
  readonly isLate: boolean;
  readonly monotonicMs: number;
}

/** What a driver has been asked for and does not give averts nothing: the spare, which is here, goes before it. */
function reachable(
  state: NodeVolumeState,
  grant: Grant,
  sizeBytes: number,
  { isLate, monotonicMs }: Waiting,
): ReachableGrant {
  const members = membersNow(state, monotonicMs);
  const usual = reachableGrant(grant, sizeBytes, members);
  if (!isLate || members === undefined) return usual;
  const atOnce = reachableGrant(grant, sizeBytes, { ...members, attainableBytes: sizeBytes });
  return atOnce.spares.length > 0 ? atOnce : usual;
}

function begunKind({ running }: NodeVolumeState): OperationKind | undefined {
  return running?.phase === "UnderWay" ? running.operation.kind : undefined;
}

/** While an extend waits for it no member can be added, and the operator does not hear that one is needed. The extend ends by itself. */
function giveUpLateDevice(volume: NodeVolume, facts: EmergencyFacts, log: Logger): void {
  const { running, handle } = volume.state;
  if (running === undefined || facts.running !== "Extend" || promisedBytes(volume.state) === 0) return;
  const isLate = facts.monotonicMs - running.startedMs >= DEVICE_PATIENCE_MS;
  if (!isLate || !shouldSpendGrant({ ...facts, running: undefined })) return;
  const { availableBytes } = facts;
  log.warn({ volume: handle, availableBytes }, "minAvailable is crossed: a device that does not grow is given up");
  volume.cancel({ because: "DeviceLate" });
}

/** An extend has waited for a while, or has failed. */
function isDriverLate({ running, record: { lastOperation } }: NodeVolumeState, monotonicMs: number): boolean {
  if (running === undefined) return lastOperation?.kind === "Extend" && lastOperation.outcome === "Failed";
  const { kind, emergency } = running.operation;
  return (
    running.phase === "UnderWay" &&
    kind === "Extend" &&
    emergency !== true &&
    monotonicMs - running.startedMs >= PATIENCE_MS
  );
}

function emergencyOperation(state: NodeVolumeState, toBytes: number, epoch: number, nowMs: number): Operation {
  return {
    kind: "Extend",
    from: formatQuantity(state.sizeBytes ?? 0),
    to: formatQuantity(toBytes),
    epoch,
    emergency: true,
    startedAt: new Date(nowMs).toISOString(),
    step: "extending",
  };
}
