// Carries out one extend or shrink: recorded before its first side effect, measured at its end, its end recorded. Whatever
// ends the process in between, the record says what to resume. It decides nothing.
import type { Operation } from "../../api/filesystem-layout.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../units/quantity.ts";
import { findMembers } from "../gather/measure-volume.ts";
import { type MountedVolume, type ShrinkResult, StorageError } from "../storage/storage.ts";
import { mountedVolumeOf, type RunningOperation, type VolumeState } from "../volumes/volume-state.ts";
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
import { shrinkUnmounted } from "./run-unmounted-shrink.ts";

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

const EXTEND_LIMIT_MS = 120_000;
const RECOVER_LIMIT_MS = 120_000;
const TRIM_LIMIT_MS = 300_000;
export const EMERGENCY_RETRY_MS = 2000;
/** Why an extend stops waiting for a device, and ends as if it had waited to the limit: the operator looks for another way. */
export const DEVICE_WAIT_OVER = "the disk fills, and the device has not followed";

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
      const startedMs = environment.clock.monotonicMs();
      const running: RunningOperation = { operation, cancel, ended, startedMs, begun: operation.emergency === true };
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

async function carryOut(
  environment: OperationEnvironment,
  state: VolumeState,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
  begin: "Anew" | "Resumed",
): Promise<void> {
  const { log, clock } = environment;
  log.info({ volume: state.handle, operation, begin }, `${operation.kind} begins`);
  let end: End;
  let agrees = operation.emergency !== true;
  try {
    if (begin === "Resumed" && !(await recover(environment, mounted, operation, signal))) {
      state.unsettled = true;
      agrees = false;
    }
    end =
      operation.kind === "Extend"
        ? await extend(environment, mounted, operation, signal)
        : await shrink(environment, state, mounted, operation, signal);
  } catch (error) {
    log.error({ volume: state.handle, operation, err: error }, `${operation.kind} failed`);
    if (operation.emergency === true) state.emergencyRetryMs = clock.monotonicMs() + EMERGENCY_RETRY_MS;
    end = {
      outcome: "Failed",
      ...reasonOf(error, signal),
      message: messageOf(error),
      sizeBytes: await measuredSize(environment, state, operation),
    };
  }
  await lookAtMembers(environment, state, mounted);
  await finish(environment, state, operation, end, agrees);
  // Not part of the operation: an emergency must not wait for it.
  if (operation.kind === "Shrink" && end.sizeBytes < parseQuantity(operation.from)) void trim(environment, mounted);
}

/**
 * A shrink that is to make way has nothing to wait for: it ends where it is. An extend waits for no command that a dead agent has left, nor does
 * an emergency behind it: false where one still runs, which may change the size later.
 */
async function recover(
  { storage }: OperationEnvironment,
  mounted: MountedVolume,
  { kind }: Operation,
  signal: AbortSignal,
): Promise<boolean> {
  const waiting = kind === "Extend" ? AbortSignal.abort() : signal;
  try {
    await withTimeLimit(storage.recover(mounted, waiting), RECOVER_LIMIT_MS, `recovering volume ${mounted.handle}`);
    return true;
  } catch (error) {
    const isBusy = error instanceof StorageError && error.code === "DeviceBusy";
    if (kind === "Shrink" ? !signal.aborted : !isBusy) throw error;
    return false;
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
  const told = new Set<string>();
  const extending = storage.extend(mounted, toBytes, signal, (message) => told.add(message));
  const sizeBytes = await withTimeLimit(extending, EXTEND_LIMIT_MS, task);
  return {
    outcome: "Succeeded",
    sizeBytes,
    ...(operation.emergency === true ? { reason: "EmergencySpent" } : {}),
    ...(told.size > 0 ? { message: [...told].join("; ") } : {}),
  };
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
    case "Busy":
      return { outcome: "Cancelled", reason: "FilesystemBusy", message: result.message, sizeBytes: result.sizeBytes };
    case "FloorReached":
      // Said with the floor itself: who decides next begins nothing else that would move data.
      if (result.immovable !== undefined && state.mounted !== undefined)
        state.moving = { mounted: state.mounted, immovable: result.immovable };
      return floorEnd(result);
  }
}

/** Where the operator can help with another member. */
function reasonOf(error: unknown, signal: AbortSignal): Pick<End, "reason"> {
  if (error instanceof StorageError && error.code === "SignatureFound") return { reason: "SignatureFound" };
  return isGivenUpOn(error, signal) ? { reason: "WaitingForMember" } : {};
}

/** A member was waited for long enough: one that gave way to a spare before was not. */
function isGivenUpOn(error: unknown, { aborted, reason }: AbortSignal): boolean {
  const isLongEnough = !aborted || reason === DEVICE_WAIT_OVER;
  return error instanceof StorageError && error.code === "WaitingForMember" && isLongEnough;
}

/** With its figures: the policy-engine asks for no less again until the use has changed. */
function floorEnd(result: Extract<ShrinkResult, { readonly outcome: "FloorReached" }>): End {
  const { message, sizeBytes, floorBytes, usedBytes, immovable } = result;
  return {
    outcome: "FloorReached",
    reason: immovable === undefined ? "ShrinkFloorReached" : "DataImmovable",
    message,
    sizeBytes,
    floor: formatQuantity(floorBytes),
    ...(usedBytes === undefined ? {} : { used: formatQuantity(usedBytes) }),
  };
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
