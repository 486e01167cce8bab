// Carries out one extend or shrink: recorded before its first side effect, measured at its end, its end recorded. Whatever
// ends the process in between, the record says what to resume. It decides nothing.
import type { Operation } from "../../contracts/kinds/filesystem-layout.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import { unlessAborted } from "../../platform/process/async/limited-wait.ts";
import { findMembers } from "../gather/measure-volume.ts";
import type { MountedVolume, ShrinkResult } from "../storage/storage.ts";
import { StorageError, unlessHung } from "../storage/storage-error.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { isCancelledFor, mountedVolumeOf, type NodeVolumeState } from "../volumes/volume-state.ts";
import {
  begin,
  type End,
  finish,
  messageOf,
  type OperationEnvironment,
  presentReserve,
  revoke,
} from "./record-operation.ts";

export interface OperationRunner {
  /**
   * Starts an operation on a mounted volume on which none runs. Resolves when it has started. Rejects, with nothing done, when it could not
   * be recorded. An emergency does not wait for the API server: its grant, recorded in advance, is enough.
   */
  start(volume: NodeVolume, operation: Operation, how: "Anew" | "Resumed"): Promise<void>;
  /** Ends as cancelled an operation that no process runs. Member and filesystem have the same size by now. */
  abandon(volume: NodeVolume, operation: Operation, message: string): Promise<void>;
}

const EXTEND_LIMIT_MS = 120_000;
const RECOVER_LIMIT_MS = 120_000;
const TRIM_LIMIT_MS = 300_000;
export const EMERGENCY_RETRY_MS = 2000;

export function createOperationRunner(environment: OperationEnvironment): OperationRunner {
  return {
    start: async (volume, operation, how) => {
      const { handle, state } = volume;
      if (state.mounted === undefined) throw new Error(`bug: ${operation.kind} of ${handle} started while unmounted`);
      const mounted = mountedVolumeOf(state.mounted, state.record);
      volume.cancel({ because: "OperationBegins", kind: operation.kind });
      const { recorded, signal } = begin(environment, volume, operation);
      recorded.catch(() => {}); // awaited below, in one of two places
      // An API server that does not answer must not block the volume. Until the start is recorded, an emergency or an unstage may cancel
      // the operation.
      const allowed = operation.emergency === true ? Promise.resolve() : unlessAborted(recorded, signal, notBegun);
      const ended = allowed.then(
        () => {
          volume.dispatch({ type: "OperationRecorded" });
          return runToItsEnd(environment, volume, mounted, operation, signal, how);
        },
        () => revoke(environment, volume),
      );
      volume.operationEndsWith(ended);
      environment.sampler.operation(handle, true);
      await allowed;
    },
    abandon: (volume, operation, message) =>
      finish(environment, volume, operation, abandonedEnd(volume.state, operation, message)),
  };
}

/** It may have been interrupted right at its end. */
function abandonedEnd({ sizeBytes }: NodeVolumeState, { kind, from, to }: Operation, message: string): End {
  if (kind === "Shrink" && sizeBytes !== undefined && sizeBytes <= parseQuantity(to))
    return { outcome: "Succeeded", sizeBytes };
  return { outcome: "Cancelled", sizeBytes: sizeBytes ?? parseQuantity(from), message };
}

function notBegun(reason: unknown): never {
  throw new Error(`given up before it began: ${String(reason)}`);
}

async function runToItsEnd(
  environment: OperationEnvironment,
  volume: NodeVolume,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
  how: "Anew" | "Resumed",
): Promise<void> {
  const { log, clock } = environment;
  log.info({ volume: volume.handle, operation, begin: how }, `${operation.kind} begins`);
  let end: End;
  let agrees = operation.emergency !== true;
  try {
    if (how === "Resumed" && !(await recover(environment, mounted, operation, signal))) {
      volume.dispatch({ type: "FormerCommandFound" });
      agrees = false;
    }
    end =
      operation.kind === "Extend"
        ? await extend(environment, mounted, operation, signal)
        : await shrink(environment, volume, mounted, operation, signal);
  } catch (error) {
    log.error({ volume: volume.handle, operation, err: error }, `${operation.kind} failed`);
    if (operation.emergency === true)
      volume.dispatch({ type: "EmergencyFailed", retryMs: clock.monotonicMs() + EMERGENCY_RETRY_MS });
    end = {
      outcome: "Failed",
      ...reasonOf(error, signal),
      message: messageOf(error),
      sizeBytes: await measuredSize(environment, volume.state, operation),
    };
  }
  await lookAtMembers(environment, volume);
  await finish(environment, volume, operation, end, agrees);
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
    await unlessHung(storage.recover(mounted, waiting), RECOVER_LIMIT_MS, `recovering volume ${mounted.handle}`);
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
  const sizeBytes = await unlessHung(extending, EXTEND_LIMIT_MS, task);
  return {
    outcome: "Succeeded",
    sizeBytes,
    ...(operation.emergency === true ? { reason: "EmergencySpent" } : {}),
    ...(told.size > 0 ? { message: [...told].join("; ") } : {}),
  };
}

async function shrink(
  { storage, reporter, log }: OperationEnvironment,
  volume: NodeVolume,
  mounted: MountedVolume,
  operation: Operation,
  signal: AbortSignal,
): Promise<End> {
  const result = await storage.shrink(mounted, parseQuantity(operation.to), {
    signal,
    reserveBytes: () => presentReserve(volume.state),
    onStep: (sizeBytes) => {
      volume.dispatch({ type: "StepReached", sizeBytes, step: `shrunk to ${formatBytes(sizeBytes)}` });
      reporter
        .report(volume.handle)
        .catch((err: unknown) => log.warn({ volume: volume.handle, err }, "step not reported"));
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
      noteImmovable(volume, result.immovable);
      return floorEnd(result);
  }
}

function noteImmovable(volume: NodeVolume, immovable: string | undefined): void {
  const { mounted } = volume.state;
  if (immovable !== undefined && mounted !== undefined)
    volume.dispatch({ type: "MovingChecked", volume: mounted.volume, immovable });
}

/** Where the operator can help with another member. */
function reasonOf(error: unknown, signal: AbortSignal): Pick<End, "reason"> {
  if (error instanceof StorageError && error.code === "SignatureFound") return { reason: "SignatureFound" };
  return isGivenUpOn(error, signal) ? { reason: "WaitingForMember" } : {};
}

/** A member was waited for long enough: one that gave way to a spare before was not. */
function isGivenUpOn(error: unknown, signal: AbortSignal): boolean {
  // As if it had waited to the limit: the operator looks for another way.
  const isLongEnough = !signal.aborted || isCancelledFor(signal, "DeviceLate");
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
  state: NodeVolumeState,
  operation: Operation,
): Promise<number> {
  const fallbackBytes = state.sizeBytes ?? parseQuantity(operation.from);
  if (state.mounted === undefined) return fallbackBytes;
  const measured = storage.sizeBytes(state.mounted.volume);
  return measured.then((sizeBytes) => sizeBytes ?? fallbackBytes).catch(() => fallbackBytes);
}

/** The status that reports the end also lists the members. Without the new members, its size would read as a smaller filesystem. */
async function lookAtMembers({ storage, log }: OperationEnvironment, volume: NodeVolume): Promise<void> {
  const { mounted } = volume.state;
  if (mounted === undefined) return;
  try {
    const members = await findMembers(storage, mounted, volume.state);
    volume.dispatch({ type: "MembersFound", volume: mounted.volume, members });
  } catch (err) {
    log.warn({ volume: volume.handle, err }, "the members are checked later");
  }
}

/** A failed trim costs room on the host, never data. */
async function trim({ storage, log }: OperationEnvironment, mounted: MountedVolume): Promise<void> {
  try {
    const trimmedBytes = await unlessHung(storage.trim(mounted), TRIM_LIMIT_MS, `trimming volume ${mounted.handle}`);
    if (trimmedBytes === undefined) log.info({ volume: mounted.handle }, "trimming gave way to another operation");
    else log.info({ volume: mounted.handle, trimmedBytes }, "unused blocks went back to the host");
  } catch (err) {
    log.warn({ volume: mounted.handle, err }, "trimming failed");
  }
}
