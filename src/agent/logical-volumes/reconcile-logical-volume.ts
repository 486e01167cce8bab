// Reconciles one LogicalVolume of this node: finds or makes its volume, or removes a snapshot, and reports what is there. What cannot
// succeed as things are is reported and left; anything else is tried again.

import { status } from "@grpc/grpc-js";
import { snapshotUIDOf } from "../../contracts/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume, type LogicalVolumeStatus } from "../../contracts/kinds/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import { type Applier, versionOf } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Logger } from "../../platform/process/log.ts";
import { type LvmdCalls, LvmdError } from "../lvmd-client/lvmd-calls.ts";
import { taggedVolumeUID } from "../storage/lvm/logical-volume.ts";
import { type FindOrMakeParts, findOrMake } from "./find-or-make.ts";

export interface LogicalVolumeParts extends FindOrMakeParts, RemoveSnapshotParts {
  readonly volumes: ReadableStore<LogicalVolume>;
  /** Its removal takes place in the same queue. */
  readonly queues: KeyedQueue;
  readonly applier: Applier;
  readonly events: EventRecorder;
  readonly log: Logger;
}

const APPLY_OPTIONS = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;

/** Rejects with what is to be tried again. */
export async function reconcileLogicalVolume(parts: LogicalVolumeParts, name: string): Promise<Outcome> {
  await parts.queues.run(name, async () => {
    const volume = parts.volumes.get(name);
    if (volume === undefined || !isForThisNode(parts, volume)) return;
    if (volume.spec.state !== "Removed" && isGivenUp(volume)) return;
    const found = await (volume.spec.state === "Removed" ? removedStatus(parts, volume) : statusOf(parts, volume));
    if (found !== undefined) await tell(parts, volume, found);
  });
  return "done";
}

function isForThisNode({ nodeName }: LogicalVolumeParts, { metadata, spec }: LogicalVolume): boolean {
  return spec.nodeName === nodeName && metadata.deletionTimestamp === undefined;
}

/** Of lvmd's answers those that the same question gets again: a larger or another volume is another object, or another generation. */
const FOR_GOOD: readonly (status | undefined)[] = [
  status.INVALID_ARGUMENT,
  status.NOT_FOUND,
  status.OUT_OF_RANGE,
  status.RESOURCE_EXHAUSTED,
  status.UNIMPLEMENTED,
];

function isGivenUp({ metadata, status: told }: LogicalVolume): boolean {
  return (
    told?.volumeID === undefined && FOR_GOOD.includes(told?.code) && told?.observedGeneration === metadata.generation
  );
}

/** Undefined: there is no status to write. */
async function statusOf(parts: LogicalVolumeParts, volume: LogicalVolume): Promise<LogicalVolumeStatus | undefined> {
  const observedGeneration = volume.metadata.generation;
  try {
    const found = await findOrMake(parts, volume);
    if (found === "Gone") return undefined;
    return { observedGeneration, volumeID: found.name, currentSize: formatQuantity(found.sizeBytes) };
  } catch (error) {
    if (!(error instanceof LvmdError)) throw error;
    parts.events.record(volume, "Warning", "LogicalVolumeNotMade", error.message);
    if (!FOR_GOOD.includes(error.code)) throw error;
    parts.log.warn({ logicalVolume: volume.metadata.name, err: error }, "the volume is not made");
    return { observedGeneration, code: error.code, message: error.said };
  }
}

async function removedStatus(parts: LogicalVolumeParts, volume: LogicalVolume): Promise<LogicalVolumeStatus> {
  const observedGeneration = volume.metadata.generation;
  if (volume.status?.state === "Removed") return { observedGeneration, state: "Removed" };
  try {
    await removeSnapshot(parts, volume);
    return { observedGeneration, state: "Removed" };
  } catch (error) {
    if (error instanceof LvmdError) parts.events.record(volume, "Warning", "LogicalVolumeNotRemoved", error.message);
    throw error;
  }
}

/** On that very version: another one may have the name since. A Conflict has the whole look repeated. */
async function tell({ applier }: LogicalVolumeParts, live: LogicalVolume, told: LogicalVolumeStatus): Promise<void> {
  const configuration = { apiVersion: API_VERSION, kind: live.kind, metadata: versionOf(live), status: told };
  try {
    await applier.applyOnChange("logical-volume/status", LOGICAL_VOLUMES, configuration, APPLY_OPTIONS, live);
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error; // deleted since it was read
  }
}

export interface RemoveSnapshotParts {
  readonly lvmd: LvmdCalls;
  /** Some FilesystemLayout has it as its member. */
  readonly isMember: (volumeID: string) => boolean;
}

/**
 * Removes what LVM has of a snapshot, once its object asks for that. Never a volume's data: that goes by its FilesystemLayout alone.
 * Idempotent. Throws LvmdError, also where the volume is not a snapshot of this name: the volume stays, and is checked again.
 */
export async function removeSnapshot(
  { lvmd, isMember }: RemoveSnapshotParts,
  { metadata, spec, status: told }: LogicalVolume,
): Promise<void> {
  const name = told?.volumeID ?? spec.volumeID ?? metadata.uid ?? "";
  const task = `removing snapshot ${metadata.name}`;
  const refuse = (why: string): Error => new LvmdError(status.FAILED_PRECONDITION, `${name} ${why}`, task);
  const snapshotUID = snapshotUIDOf(metadata.name);
  if (snapshotUID === undefined) throw refuse("is a volume's, which only its FilesystemLayout removes");
  if (isMember(name)) throw refuse("is a FilesystemLayout's member");
  const found = await lvmd.volume(spec.deviceClass, name);
  if (found !== undefined && taggedVolumeUID(found.tags) !== snapshotUID)
    throw refuse("is not tagged as this snapshot's; it is left as it is");
  // Also where it was not found: only this call distinguishes a volume that is gone from a class that is out of reach.
  await lvmd.wipeAndRemove(spec.deviceClass, name);
}
