// The beginning and the end of one extend or shrink: what is known here, what the node's record says, and what the API server is told.

import { isStepBefore } from "../../api/decision-time.ts";
import type { LastOperation, Operation } from "../../api/filesystem-layout.ts";
import { reserveBytes } from "../../api/reserve.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { formatQuantity, parseQuantity } from "../../units/quantity.ts";
import type { AgentMetrics } from "../metrics.ts";
import type { StatusReporter } from "../report/status-reporter.ts";
import type { Sampler } from "../sampling/sampler.ts";
import type { Storage } from "../storage/storage.ts";
import type { NodeRecord, NodeRecords } from "../volumes/node-records.ts";
import { saveRecord } from "../volumes/save-record.ts";
import type { VolumeState } from "../volumes/volume-state.ts";
import { settled } from "./settle-size.ts";

export interface OperationEnvironment {
  readonly storage: Storage;
  readonly records: NodeRecords;
  readonly reporter: StatusReporter;
  readonly sampler: Sampler;
  readonly metrics: AgentMetrics;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called at each end: whether there is more to do is decided anew. */
  readonly ended: (handle: string) => void;
}

export type End = Pick<LastOperation, "outcome" | "reason" | "message" | "floor" | "used"> & {
  readonly sizeBytes: number;
};

/** The local record and the API's, both before the first side effect. */
export async function recordStart(
  { records, reporter }: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
): Promise<void> {
  state.record = { ...state.record, operation };
  const written = saveRecord(records, state, "ProcessDeath");
  // The reporter reads state.running, which is set in the same turn of the event loop.
  const reported = Promise.resolve().then(() => reporter.report(state.handle));
  if (operation.emergency === true) {
    reported.catch(() => {}); // told later; the API server may be what is down
    await written;
  } else await Promise.all([written, reported]);
}

export async function revoke({ records, sampler }: OperationEnvironment, state: VolumeState): Promise<void> {
  state.running = undefined;
  sampler.operation(state.handle, false);
  state.record = { ...state.record, operation: undefined };
  await saveRecord(records, state, "ProcessDeath").catch(() => {}); // the state says so, and it is tried again
}

/**
 * The end, known here first, then on the disk; the reconciler that `ended` wakes reports it to the API server. `agrees`: nothing that a dead agent
 * has left running may set member and filesystem apart later. An emergency does not wait to know that.
 */
export async function finish(
  { records, sampler, metrics, reporter, clock, log, ended }: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
  end: End,
  agrees = operation.emergency !== true,
): Promise<void> {
  const floor = state.record.backend === "span" ? floorTakenBack(operation, end, state.record.lastOperation) : {};
  const lastOperation = { ...lastOperationOf(operation, end, clock.nowMs()), ...floor };
  const record: NodeRecord = { ...state.record, operation: undefined, lastOperation };
  state.record = operation.decidedAt === undefined ? record : { ...record, endedDecidedAt: operation.decidedAt };
  state.sizeBytes = end.sizeBytes;
  // A member that has changed says nothing about its filesystem when the operation failed.
  if (end.outcome === "Failed") state.unsettled = true;
  else if (agrees) settled(state);
  state.running = undefined;
  state.operationEndedMs = clock.monotonicMs();
  sampler.operation(state.handle, false);
  metrics.operationEnded(lastOperation);
  reporter.operationEnded(state, lastOperation);
  log.info({ volume: state.handle, lastOperation }, `${operation.kind} ended: ${end.outcome}`);
  await saveRecord(records, state, "ProcessDeath").catch((err: unknown) => {
    log.error({ volume: state.handle, err }, "the end of an operation could not be recorded on the node");
  });
  ended(state.handle);
}

function lastOperationOf({ step: _step, ...operation }: Operation, end: End, nowMs: number): LastOperation {
  const { sizeBytes, ...rest } = end;
  return { ...operation, ...rest, reached: formatQuantity(sizeBytes), endedAt: new Date(nowMs).toISOString() };
}

/**
 * Of the shrink that takes a replacement back whose large member could not leave: the size that it gets back to is the floor which that one has
 * found. Otherwise nothing would say so any more, and the same replacement begin anew.
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
export function presentReserve({ record, reading }: VolumeState): number {
  const minAvailableBytes = record.grant === undefined ? 0 : parseQuantity(record.grant.minAvailable);
  return reserveBytes(minAvailableBytes, reading?.peakWriteBytesPerSecond ?? 0);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
