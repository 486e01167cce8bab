// Carries out one extend or shrink: recorded before its first side effect, measured at its end, its end recorded. Whatever
// ends the process in between, the record says what to resume. It decides nothing.
import type { LastOperation, Operation } from "../api/filesystem-layout.ts";
import { reserveBytes } from "../api/reserve.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../units/quantity.ts";
import { findMembers } from "./measure-volume.ts";
import type { AgentMetrics } from "./metrics.ts";
import type { NodeRecord, NodeRecords } from "./node-records.ts";
import type { Sampler } from "./sampler.ts";
import { saveRecord } from "./save-record.ts";
import { settled } from "./settle-size.ts";
import type { StatusReporter } from "./status-reporter.ts";
import type { MountedVolume, Storage, UnmountedShrinkResult } from "./storage/storage.ts";
import { withTimeLimit } from "./time-limit.ts";
import { mountedVolumeOf, type RunningOperation, type VolumeState, volumeOf } from "./volume-state.ts";

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

export interface OperationRunner {
  /**
   * Begins the operation of a mounted volume on which none runs; resolves when it has begun, and rejects, with nothing done,
   * when it could not be recorded. An emergency's record is written beside it: its grant, recorded in advance, is enough.
   */
  start(state: VolumeState, operation: Operation, begin: "Anew" | "Resumed"): Promise<void>;
  /**
   * Carries out a shrink of an unmounted volume on which nothing runs, from its record to its end; with nothing done when it could not be
   * recorded. Rejects where it is not known how it has ended: then storage ends it before the next mount.
   */
  shrinkUnmounted(state: VolumeState, operation: Operation): Promise<void>;
  /** Makes a running shrink stop where it is; resolves when it has. An extend is waited for. */
  cancelAndWait(state: VolumeState, reason: string): Promise<void>;
  /** Ends an operation that nobody runs any more as cancelled; member and filesystem are of one size by now. */
  abandon(state: VolumeState, operation: Operation, message: string): Promise<void>;
}

/** An API server that does not answer keeps nobody from mounting the volume again for longer. */
const RECORD_LIMIT_MS = 10_000;
const EXTEND_LIMIT_MS = 120_000;
const RECOVER_LIMIT_MS = 120_000;
const TRIM_LIMIT_MS = 300_000;
export const EMERGENCY_RETRY_MS = 2000;

type End = Pick<LastOperation, "outcome" | "reason" | "message"> & { readonly sizeBytes: number };

export function createOperationRunner(environment: OperationEnvironment): OperationRunner {
  return {
    start: async (state, operation, begin) => {
      if (state.mounted === undefined || state.running !== undefined)
        throw new Error(`bug: ${operation.kind} of ${state.handle} started while unmounted or busy`);
      const mounted = mountedVolumeOf(state.mounted, state.record);
      const cancel = new AbortController();
      const recorded = recordStart(environment, state, operation);
      recorded.catch(() => {}); // awaited below, in one of two places
      // An API server that does not answer holds nobody up: until it is recorded, whoever needs the room takes the place.
      const allowed =
        operation.emergency === true ? Promise.resolve() : Promise.race([recorded, abortion(cancel.signal)]);
      const ended = allowed.then(
        () => {
          running.begun = true;
          return carryOut(environment, state, mounted, operation, cancel.signal, begin);
        },
        () => revoke(environment, state),
      );
      const running: RunningOperation = { operation, cancel, ended, begun: operation.emergency === true };
      state.running = running;
      state.trimming?.abort(`${operation.kind} begins`); // a shrink would wait for it otherwise
      environment.sampler.operation(state.handle, true);
      await allowed;
    },
    shrinkUnmounted: (state, operation) => shrinkUnmounted(environment, state, operation),
    cancelAndWait: async ({ running }, reason) => {
      running?.cancel.abort(reason);
      await running?.ended;
    },
    abandon: (state, operation, message) =>
      finish(environment, state, operation, abandonedEnd(state, operation, message)),
  };
}

/** It may have been interrupted right at its end. */
function abandonedEnd({ sizeBytes }: VolumeState, { kind, from, to }: Operation, message: string): End {
  if (kind === "Shrink" && sizeBytes !== undefined && sizeBytes <= parseQuantity(to))
    return { outcome: "Succeeded", sizeBytes };
  return { outcome: "Cancelled", sizeBytes: sizeBytes ?? parseQuantity(from), message };
}

function abortion(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error(`given up before it began: ${String(signal.reason)}`)), {
      once: true,
    });
  });
}

/** The local record and the API's, both before the first side effect. */
async function recordStart(
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

async function revoke({ records, sampler }: OperationEnvironment, state: VolumeState): Promise<void> {
  state.running = undefined;
  sampler.operation(state.handle, false);
  state.record = { ...state.record, operation: undefined };
  await saveRecord(records, state, "ProcessDeath").catch(() => {}); // the state says so, and it is tried again
}

async function carryOut(
  environment: OperationEnvironment,
  state: VolumeState,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
  begin: "Anew" | "Resumed",
): Promise<void> {
  const { storage, log, clock } = environment;
  log.info({ volume: state.handle, operation, begin }, `${operation.kind} begins`);
  let end: End;
  try {
    if (begin === "Resumed")
      await withTimeLimit(storage.recover(mounted), RECOVER_LIMIT_MS, `recovering volume ${state.handle}`);
    end =
      operation.kind === "Extend"
        ? await extend(environment, mounted, operation, signal)
        : await shrink(environment, state, mounted, operation, signal);
  } catch (error) {
    log.error({ volume: state.handle, operation, err: error }, `${operation.kind} failed`);
    if (operation.emergency === true) state.emergencyRetryAtMs = clock.nowMs() + EMERGENCY_RETRY_MS;
    end = {
      outcome: "Failed",
      message: messageOf(error),
      sizeBytes: await measuredSize(environment, state, operation),
    };
  }
  await lookAtMembers(environment, state, mounted);
  await finish(environment, state, operation, end);
  // Not part of the operation: an emergency must not wait for it.
  if (operation.kind === "Shrink" && end.sizeBytes < parseQuantity(operation.from)) void trim(environment, mounted);
}

async function shrinkUnmounted(
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
  const running: RunningOperation = { operation, cancel, ended, begun: false };
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

async function extend(
  { storage }: OperationEnvironment,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
): Promise<End> {
  const toBytes = parseQuantity(operation.to);
  const task = `extending volume ${mounted.handle} to ${formatBytes(toBytes)}`;
  const sizeBytes = await withTimeLimit(storage.extend(mounted, toBytes, signal), EXTEND_LIMIT_MS, task);
  return { outcome: "Succeeded", sizeBytes, ...(operation.emergency === true ? { reason: "EmergencySpent" } : {}) };
}

async function shrink(
  { storage, reporter, log }: OperationEnvironment,
  state: VolumeState,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
): Promise<End> {
  const result = await storage.shrink(mounted, parseQuantity(operation.to), {
    signal,
    reserveBytes: () => presentReserve(state),
    onStep: (sizeBytes) => {
      state.sizeBytes = sizeBytes;
      if (state.running !== undefined)
        state.running = { ...state.running, operation: { ...operation, step: `shrunk to ${formatBytes(sizeBytes)}` } };
      reporter
        .report(state.handle)
        .catch((err: unknown) => log.warn({ volume: state.handle, err }, "step not reported"));
    },
  });
  switch (result.outcome) {
    case "Succeeded":
      return { outcome: "Succeeded", sizeBytes: result.sizeBytes };
    case "Cancelled":
      return { outcome: "Cancelled", reason: "ShrinkCancelled", message: result.message, sizeBytes: result.sizeBytes };
    case "FloorReached":
      return {
        outcome: "FloorReached",
        reason: "ShrinkFloorReached",
        message: result.message,
        sizeBytes: result.sizeBytes,
      };
  }
}

/** What a shrink leaves available, whatever happens. */
function presentReserve({ record, reading }: VolumeState): number {
  const minAvailableBytes = record.grant === undefined ? 0 : parseQuantity(record.grant.minAvailable);
  return reserveBytes(minAvailableBytes, reading?.peakWriteBytesPerSecond ?? 0);
}

async function measuredSize(
  { storage }: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
): Promise<number> {
  const fallbackBytes = state.sizeBytes ?? parseQuantity(operation.from);
  if (state.mounted === undefined) return fallbackBytes;
  const measured = storage.sizeBytes(state.mounted);
  return measured.then((sizeBytes) => sizeBytes ?? fallbackBytes).catch(() => fallbackBytes);
}

/** The end, known here first, then on the disk; the API server is told by the reconciler that `ended` wakes. */
async function finish(
  { records, sampler, metrics, reporter, clock, log, ended }: OperationEnvironment,
  state: VolumeState,
  operation: Operation,
  end: End,
): Promise<void> {
  const lastOperation = lastOperationOf(operation, end, clock.nowMs());
  const record: NodeRecord = { ...state.record, operation: undefined, lastOperation };
  state.record = operation.decidedAt === undefined ? record : { ...record, endedDecidedAt: operation.decidedAt };
  state.sizeBytes = end.sizeBytes;
  // A member that has changed says nothing about its filesystem when the operation failed.
  if (end.outcome === "Failed") state.unsettled = true;
  else settled(state);
  state.running = undefined;
  state.operationEndedAtMs = clock.nowMs();
  sampler.operation(state.handle, false);
  metrics.operationEnded(lastOperation);
  reporter.operationEnded(state, lastOperation);
  log.info({ volume: state.handle, lastOperation }, `${operation.kind} ended: ${end.outcome}`);
  await saveRecord(records, state, "ProcessDeath").catch((err: unknown) => {
    log.error({ volume: state.handle, err }, "the end of an operation could not be recorded on the node");
  });
  ended(state.handle);
}

/** What is told with the end belongs to it: a size without the members that have come reads as a smaller filesystem. */
async function lookAtMembers(
  { storage, log }: OperationEnvironment,
  state: VolumeState,
  mounted: MountedVolume,
): Promise<void> {
  try {
    state.members = await findMembers(storage, mounted, state);
  } catch (err) {
    log.warn({ volume: state.handle, err }, "the members are looked at later");
  }
}

function lastOperationOf({ step: _step, ...operation }: Operation, end: End, nowMs: number): LastOperation {
  const { sizeBytes, ...rest } = end;
  return { ...operation, ...rest, reached: formatQuantity(sizeBytes), endedAt: new Date(nowMs).toISOString() };
}

/** A failed trim costs room on the host, never data. */
async function trim({ storage, log }: OperationEnvironment, mounted: MountedVolume): Promise<void> {
  try {
    const trimmedBytes = await withTimeLimit(storage.trim(mounted), TRIM_LIMIT_MS, `trimming volume ${mounted.handle}`);
    if (trimmedBytes === undefined) log.info({ volume: mounted.handle }, "trimming gave way to another operation");
    else log.info({ volume: mounted.handle, trimmedBytes }, "unused blocks went back to the host");
  } catch (err) {
    log.warn({ volume: mounted.handle, err }, "trimming failed");
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
