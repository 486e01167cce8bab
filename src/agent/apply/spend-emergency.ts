// Spends a grant when a reading crosses it: in the sampler's own message, with no round trip to anybody.
import type { Operation } from "../../api/filesystem-layout.ts";
import { type Clock, instantOf } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { formatBytes, formatQuantity } from "../../units/quantity.ts";
import {
  type EmergencyFacts,
  type Grant,
  grantOf,
  isAlive,
  type ReachableGrant,
  reachableGrant,
  shouldSpendGrant,
} from "../decide/decide-emergency.ts";
import type { OperationKind } from "../decide/decide-operation.ts";
import { membersNow } from "../decide/growth-pause.ts";
import { isReadOnly } from "../gather/mount-watch.ts";
import { promisedBytes, withSparesTaken } from "../gather/span-facts.ts";
import { hasGrownTo } from "../storage/filesystem/read-filesystem.ts";
import type { VolumeState } from "../volumes/volume-state.ts";
import { DEVICE_WAIT_OVER, type OperationRunner } from "./run-operation.ts";

export interface EmergencyEnvironment {
  readonly runner: OperationRunner;
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
  state: VolumeState,
): Promise<void> {
  const { reading, record, sizeBytes } = state;
  if (record.grant === undefined || reading === undefined || sizeBytes === undefined) return;
  if (!mayBegin(state)) return;
  // A reading from before the last operation's end says nothing about the present size.
  if (reading.takenMs < state.operationEndedMs) return;
  const { capacityBytes, availableBytes } = reading;
  const { emergencyRetryMs: retryMs } = state;
  const at = instantOf(clock);
  const { monotonicMs } = at;
  const isLate = isDriverLate(state, monotonicMs);
  const { grant, spares } = reachable(state, grantOf(record.grant), sizeBytes, { isLate, monotonicMs });
  const memberAhead = state.unsettled && record.lastOperation?.outcome === "Failed" && !hasGrownTo(reading, sizeBytes);
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
  giveUpLateDevice(state, facts, log);
  // Asked of the kernel now, and last: what the state says may be seconds old, and the room is wanted as soon as it can be had.
  if (!shouldSpendGrant(facts) || isReadOnly(state.mounted)) return;
  log.warn(
    { volume: state.handle, availableBytes, grant: record.grant },
    "minAvailable is crossed: spending the grant",
  );
  try {
    await runner.cancelAndWait(
      state,
      `only ${formatBytes(availableBytes)} are available: the emergency extend goes first`,
    );
    if (state.running !== undefined || state.closing) return; // the next reading looks again
    // On the node's record with the operation: whatever ends this process, the next one goes on with the member.
    if (spares.length > 0) state.record = withSparesTaken(state.record, spares);
    await runner.start(state, emergencyOperation(state, grant.sizeBytes, record.grant.epoch, clock.nowMs()), "Anew");
  } catch (err) {
    log.error({ volume: state.handle, err }, "the emergency extend could not begin");
  }
}

function mayBegin({ mounted, closing, running, record, problem }: VolumeState): boolean {
  // Its file was cut by hand: each attempt would fail.
  if (record.backend === "loop" && problem?.reason === "MembersMissing") return false;
  return mounted !== undefined && !closing && running?.cancel.signal.aborted !== true;
}

interface Waiting {
  readonly isLate: boolean;
  readonly monotonicMs: number;
}

/** What a driver has been asked for and does not give averts nothing: the spare, which is here, goes before it. */
function reachable(
  state: VolumeState,
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

function begunKind({ running }: VolumeState): OperationKind | undefined {
  return running?.begun === true ? running.operation.kind : undefined;
}

/** While an extend waits for it no member can be added, and the operator does not hear that one is needed. The extend ends by itself. */
function giveUpLateDevice(state: VolumeState, facts: EmergencyFacts, log: Logger): void {
  const { running, handle } = state;
  if (running === undefined || facts.running !== "Extend" || promisedBytes(state) === 0) return;
  const isLate = facts.monotonicMs - running.startedMs >= DEVICE_PATIENCE_MS;
  if (!isLate || !shouldSpendGrant({ ...facts, running: undefined })) return;
  const { availableBytes } = facts;
  log.warn({ volume: handle, availableBytes }, "minAvailable is crossed: a device that does not grow is given up");
  running.cancel.abort(DEVICE_WAIT_OVER);
}

/** An extend has waited for a while, or has failed. */
function isDriverLate({ running, record: { lastOperation } }: VolumeState, monotonicMs: number): boolean {
  if (running === undefined) return lastOperation?.kind === "Extend" && lastOperation.outcome === "Failed";
  const { kind, emergency } = running.operation;
  return running.begun && kind === "Extend" && emergency !== true && monotonicMs - running.startedMs >= PATIENCE_MS;
}

function emergencyOperation(state: VolumeState, toBytes: number, epoch: number, nowMs: number): Operation {
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
