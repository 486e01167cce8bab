// The start and the end of one extend or shrink: in this process, in the node's record and in the layout's status. It decides nothing and
// resizes nothing.

import { isStepBefore } from "../../contracts/formulas/decision-order.ts";
import { reserveBytes } from "../../contracts/formulas/reserve.ts";
import type { LastOperation, Operation } from "../../contracts/kinds/filesystem-layout.ts";
import { formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { OperationDecision } from "../decide/decide-operation.ts";
import type { Members, Resizing, Trimming, UnmountedShrinks } from "../storage/storage.ts";
import type { NodeRecords } from "../volumes/node-records.ts";
import { type NodeVolume, saveRecord } from "../volumes/node-volume.ts";
import type { NodeVolumeState } from "../volumes/volume-state.ts";

/** How the API server hears of operations. */
interface OperationReports {
  /** Resolves when what is known at the time of the call has been applied; rejects with KubeError when it could not. */
  report(handle: string): Promise<void>;
  operationEnded(state: NodeVolumeState, operation: LastOperation): void;
}

export interface OperationEnvironment {
  readonly storage: Resizing & Trimming & Members & UnmountedShrinks;
  readonly records: NodeRecords;
  readonly reporter: OperationReports;
  /** At an operation's end one reading is taken at once. */
  readonly sampler: { operation(handle: string, inProgress: boolean): void };
  readonly metrics: { operationEnded(operation: LastOperation): void };
  readonly clock: Clock;
  readonly log: Logger;
  /** Called at each end, so that the agent decides again whether there is more to do. */
  readonly ended: (handle: string) => void;
}

export type End = Pick<LastOperation, "outcome" | "reason" | "message" | "floor" | "used"> & {
  readonly sizeBytes: number;
};

/**
 * From here on it runs in this process, until finish or revoke. `recorded`: its start stands in the local record and the API's, which its first
 * side effect waits for, but an emergency's: that was granted in advance, and a full disk does not wait. `signal`: it is cancelled.
 */
export function begin(
  environment: OperationEnvironment,
  volume: NodeVolume,
  operation: Operation,
): { readonly recorded: Promise<void>; readonly signal: AbortSignal } {
  volume.dispatch({ type: "OperationStarted", operation, startedMs: environment.clock.monotonicMs() });
  return { recorded: recordStart(environment, volume, operation), signal: volume.signalOf("running") };
}

async function recordStart(
  { records, reporter }: OperationEnvironment,
  volume: NodeVolume,
  operation: Operation,
): Promise<void> {
  const written = saveRecord(records, volume, "ProcessDeath");
  const reported = reporter.report(volume.handle);
  if (operation.emergency === true) {
    reported.catch(() => {}); // a later report repeats it; the API server may be what is down
    await written;
  } else await Promise.all([written, reported]);
}

export async function revoke({ records, sampler }: OperationEnvironment, volume: NodeVolume): Promise<void> {
  volume.dispatch({ type: "OperationRevoked" });
  sampler.operation(volume.handle, false);
  await saveRecord(records, volume, "ProcessDeath").catch(() => {}); // the state says so, and it is tried again
}

/**
 * The end, known here first, then on the disk; the reconciler that `ended` wakes reports it to the API server. `agrees`: nothing that a dead agent
 * has left running may set member and filesystem apart later. An emergency does not wait to know that.
 */
export async function finish(
  { records, sampler, metrics, reporter, clock, log, ended }: OperationEnvironment,
  volume: NodeVolume,
  operation: Operation,
  end: End,
  agrees = operation.emergency !== true,
): Promise<void> {
  const { handle, state } = volume;
  const { sizeBytes } = end;
  const floor = state.record.backend === "span" ? floorTakenBack(operation, end, state.record.lastOperation) : {};
  const lastOperation = { ...lastOperationOf(operation, end, clock.nowMs()), ...floor };
  const endedMs = clock.monotonicMs();
  volume.dispatch({ type: "OperationEnded", lastOperation, sizeBytes, agrees, endedMs });
  sampler.operation(handle, false);
  metrics.operationEnded(lastOperation);
  reporter.operationEnded(volume.state, lastOperation);
  log.info({ volume: handle, lastOperation }, `${operation.kind} ended: ${end.outcome}`);
  await saveRecord(records, volume, "ProcessDeath").catch((err: unknown) => {
    log.error({ volume: handle, err }, "the end of an operation could not be recorded on the node");
  });
  ended(handle);
}

function lastOperationOf({ step: _step, ...operation }: Operation, end: End, nowMs: number): LastOperation {
  const { sizeBytes, ...rest } = end;
  return { ...operation, ...rest, reached: formatQuantity(sizeBytes), endedAt: new Date(nowMs).toISOString() };
}

/**
 * For a shrink that takes a replacement back because the large member could not leave. The size that the volume returns to is the floor
 * that the failed operation found. Without this floor the engine would ask for the same replacement again.
 */
function floorTakenBack(
  { kind, decidedAt }: Operation,
  { outcome, sizeBytes }: End,
  before: LastOperation | undefined,
): Pick<LastOperation, "floor" | "used" | "reason" | "message"> {
  if (kind !== "Shrink" || outcome !== "Succeeded" || before?.outcome !== "FloorReached") return {};
  if (before.decidedAt === undefined || decidedAt === undefined || !isStepBefore(before.decidedAt, decidedAt))
    return {};
  const { used, reason, message } = before;
  return used === undefined ? {} : { floor: formatQuantity(sizeBytes), used, reason, message };
}

/** What a shrink leaves available, whatever happens. */
export function presentReserve({ record, reading }: NodeVolumeState): number {
  const minAvailableBytes = record.grant === undefined ? 0 : parseQuantity(record.grant.minAvailable);
  return reserveBytes(minAvailableBytes, reading?.peakWriteBytesPerSecond ?? 0);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
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
