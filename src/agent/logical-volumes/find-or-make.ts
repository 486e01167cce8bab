// The volume of LVM behind a LogicalVolume: found, or made once. Its name is the object's UID, so that a repeated call after a crash finds
// what was made before.

import { status } from "@grpc/grpc-js";
import type { Volume } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { snapshotUIDOf, volumeUIDOf } from "../../contracts/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import { RECORDS } from "../../contracts/names.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import { type LvmdCalls, LvmdError } from "../lvmd-client/lvmd-calls.ts";
import { COPY_TAG, FORMATTED_TAG, RAW_BLOCK_TAG, UNMOUNTED_SHRINK_TAG } from "../storage/lvm/logical-volume.ts";

export interface FindOrMakeParts {
  readonly nodeName: string;
  readonly lvmd: LvmdCalls;
  readonly client: Pick<KubeClient, "get">;
  readonly queues: KeyedQueue;
  /** Its layout asks for the removal of its data. */
  readonly isBeingRemoved: (name: string) => boolean;
}

/** `Gone`: there is no status to write. Throws LvmdError and KubeError; the reconciler knows which codes of LvmdError are permanent. */
export type FoundOrMade = Pick<Volume, "name" | "sizeBytes"> | "Gone";

export async function findOrMake(parts: FindOrMakeParts, wanted: LogicalVolume): Promise<FoundOrMade> {
  const { spec, status: told } = wanted;
  const isNew = told?.volumeID === undefined && spec.volumeID === undefined && spec.source === undefined;
  return isNew ? makeNew(parts, wanted) : find(parts, wanted);
}

/** LVM is not asked first: lvmd gives the one that is there already. */
async function makeNew(parts: FindOrMakeParts, wanted: LogicalVolume): Promise<FoundOrMade> {
  if (!(await isStillWanted(parts, wanted))) return "Gone";
  const { deviceClass, size } = wanted.spec;
  const [name, tags] = [uidOf(wanted), tagsOf(wanted)];
  try {
    const request = { name, deviceClass, tags, lvcreateOptionClass: "", sizeBytes: parseQuantity(size) };
    return { name, sizeBytes: await parts.lvmd.create(request) };
  } catch (error) {
    // It has another size by now.
    const isThere = error instanceof LvmdError && error.code === status.ALREADY_EXISTS;
    const found = isThere ? await parts.lvmd.volume(deviceClass, name) : undefined;
    if (found === undefined) throw error;
    return found;
  }
}

async function find(parts: FindOrMakeParts, wanted: LogicalVolume): Promise<FoundOrMade> {
  const { deviceClass, volumeID, source } = wanted.spec;
  const name = wanted.status?.volumeID ?? volumeID ?? uidOf(wanted);
  const found = await parts.lvmd.volume(deviceClass, name);
  if (found !== undefined && !isCutShort(wanted, found)) return found;
  // It was made once and is no longer there: it was removed with its layout, or data is missing. No empty volume takes its place.
  if (wanted.status?.volumeID !== undefined) return "Gone";
  if (volumeID !== undefined)
    throw new LvmdError(status.NOT_FOUND, `device class ${deviceClass} has no volume ${volumeID}`, "looking for it");
  if (source === undefined || !(await isStillWanted(parts, wanted))) return "Gone";
  await copy(parts, wanted, source).catch((error: unknown) => {
    throw found !== undefined && error instanceof LvmdError ? halfMade(found, error) : error;
  });
  return (await parts.lvmd.volume(deviceClass, name)) ?? "Gone";
}

/**
 * lvmd makes a snapshot in steps: it makes it, enlarges it, and makes it read-only. Until the status names the volume, a crash may have
 * left it without the later steps. The same call to lvmd goes on with them.
 */
function isCutShort({ spec, status: told }: LogicalVolume, { sizeBytes, attr }: Volume): boolean {
  if (spec.source === undefined || spec.volumeID !== undefined || told?.volumeID !== undefined) return false;
  // lvs(8): the second character of lv_attr is "r" for a volume that is only read.
  return spec.accessType === "ro" ? attr.charAt(1) !== "r" : sizeBytes < parseQuantity(spec.size);
}

/**
 * For instance a copy whose source has gone. Another process may have read it, so the agent neither removes it nor takes it for complete.
 */
function halfMade({ name, deviceClass }: Volume, error: LvmdError): LvmdError {
  const left = `logical volume ${name} of device class ${deviceClass} was begun for it, and is left half made`;
  return new LvmdError(error.code, `${error.said}; ${left}`, "finishing a copy", error);
}

/** The watch may be behind, so the API server is asked: a volume that is made for an object that has just gone would have no owner. */
async function isStillWanted({ client, isBeingRemoved }: FindOrMakeParts, wanted: LogicalVolume): Promise<boolean> {
  const { name } = wanted.metadata;
  if (isBeingRemoved(name)) return false;
  const live = await client.get(LOGICAL_VOLUMES, { name });
  if (live === undefined || live.metadata.uid !== wanted.metadata.uid) return false;
  return live.metadata.deletionTimestamp === undefined && live.spec.state !== "Removed";
}

async function copy(parts: FindOrMakeParts, wanted: LogicalVolume, source: string): Promise<void> {
  const { deviceClass, size, accessType = "rw" } = wanted.spec;
  const sourceVolume = await sourceVolumeOf(parts, wanted, source);
  // What is only read is as large as its source is in that moment: that may have grown since it was asked for.
  const sizeBytes = accessType === "ro" ? 0 : parseQuantity(size);
  const request = { name: uidOf(wanted), deviceClass, tags: tagsOf(wanted), sizeBytes, sourceVolume, accessType };
  await refuseWhileShrinking(parts, deviceClass, sourceVolume);
  // A shrink of the unmounted source takes place in its queue, too: none begins in between. It may take hours, for which no worker waits.
  if (parts.queues.isBusy(source)) throw notNow(sourceVolume, "it is being mounted or unmounted");
  await parts.queues.run(source, async () => {
    await refuseWhileShrinking(parts, deviceClass, sourceVolume);
    await parts.lvmd.createSnapshot(request);
  });
}

/** What is on it then is neither the one nor the other. Throws what is tried again. */
async function refuseWhileShrinking({ lvmd }: FindOrMakeParts, deviceClass: string, name: string): Promise<void> {
  const found = await lvmd.volume(deviceClass, name);
  if (found?.tags.includes(UNMOUNTED_SHRINK_TAG) !== true) return;
  throw notNow(name, "its filesystem is being made smaller");
}

function notNow(name: string, why: string): LvmdError {
  return new LvmdError(status.UNAVAILABLE, why, `making a snapshot of volume ${name}`);
}

/** Throws where there is none, or not on this node, or not yet. */
async function sourceVolumeOf(
  { nodeName, client }: FindOrMakeParts,
  { spec }: LogicalVolume,
  source: string,
): Promise<string> {
  const task = `making a snapshot of LogicalVolume ${source}`;
  const live = await client.get(LOGICAL_VOLUMES, { name: source });
  if (live === undefined) throw new LvmdError(status.NOT_FOUND, "there is no such object", task);
  if (live.spec.nodeName !== nodeName || live.spec.deviceClass !== spec.deviceClass)
    throw new LvmdError(
      status.INVALID_ARGUMENT,
      `it is of device class ${live.spec.deviceClass} on node ${live.spec.nodeName}; a snapshot is of the same`,
      task,
    );
  if (live.status?.volumeID === undefined) throw new LvmdError(status.UNAVAILABLE, "its volume is not made yet", task);
  return live.status.volumeID;
}

function uidOf({ metadata: { name, uid } }: LogicalVolume): string {
  if (uid === undefined) throw new Error(`bug: LogicalVolume ${name} has no UID, and did not come from an API server`);
  return uid;
}

const CLAIM_TAG = "tidemark.dev/claim=";

/**
 * What LVM itself knows of whose a volume is: its tags, from which people and a new agent find its claim. Pure. The volume's or the
 * snapshot's own UID first, the claim where that is known, what its content is, and of a copy that it may hold data which is another's by
 * its UUID. Throws TypeError on a name that is neither a volume handle nor a snapshot id.
 */
export function tagsOf({ metadata, spec }: LogicalVolume): string[] {
  const volumeUID = volumeUIDOf(metadata.name);
  const ownUID = volumeUID ?? snapshotUIDOf(metadata.name);
  if (ownUID === undefined)
    throw new TypeError(`LogicalVolume ${metadata.name} is named neither like a volume handle nor like a snapshot`);
  return [`${RECORDS.volumeUID}=${ownUID}`, ...claimTags(spec.claimRef), ...contentTags(spec, volumeUID !== undefined)];
}

/** A raw block volume is never looked into: its copies have no UUID of their own to get. */
function contentTags({ volumeMode, source }: LogicalVolume["spec"], isVolume: boolean): string[] {
  if (volumeMode === "Block") return [RAW_BLOCK_TAG];
  if (source === undefined) return [];
  return isVolume ? [FORMATTED_TAG, COPY_TAG] : [FORMATTED_TAG];
}

function claimTags(claimRef: LogicalVolume["spec"]["claimRef"]): string[] {
  if (claimRef === undefined) return [];
  const { namespace = "", name } = claimRef;
  return [`${CLAIM_TAG}${withAllowedCharacters(`${namespace}/${name}`)}`];
}

/** lvm(8), "Tags". */
function withAllowedCharacters(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9_+.\-/=!:&#]/g, "_");
}
