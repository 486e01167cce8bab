// The volume of LVM behind a LogicalVolume: found, or made once. Its name is the object's UID, so that whoever asks again after a crash
// finds what was made before.
import { status } from "@grpc/grpc-js";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import type { Volume } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { LvmdCalls } from "../lvmd-client/lvmd-calls.ts";
import { LvmdError } from "../lvmd-client/lvmd-error.ts";
import { UNMOUNTED_SHRINK_TAG } from "../storage/lvm/content-tags.ts";
import type { VolumeLanes } from "../volumes/volume-lanes.ts";
import { tagsOf } from "./volume-tags.ts";

export interface FindOrMakeParts {
  readonly nodeName: string;
  readonly lvmd: LvmdCalls;
  readonly client: Pick<KubeClient, "get">;
  readonly lanes: VolumeLanes;
  /** Its layout asks for the removal of its data. */
  readonly isBeingRemoved: (name: string) => boolean;
}

/** `Gone`: nothing is to be told. Throws LvmdError and KubeError; what isForGood says of those is for good. */
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
  // Made once and not there any more: it was removed with its layout, or data is missing. No empty one takes its place.
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
 * A snapshot is made in steps: made, enlarged, made read-only. Until it is told, a death may have left one without the later ones, which the
 * same call to lvmd goes on with.
 */
function isCutShort({ spec, status: told }: LogicalVolume, { sizeBytes, attr }: Volume): boolean {
  if (spec.source === undefined || spec.volumeID !== undefined || told?.volumeID !== undefined) return false;
  // lvs(8): the second character of lv_attr is "r" for a volume that is only read.
  return spec.accessType === "ro" ? attr.charAt(1) !== "r" : sizeBytes < parseQuantity(spec.size);
}

/** A copy whose source has gone, say: nobody can tell whether somebody has seen it, so it is not removed, and not taken for whole. */
function halfMade({ name, deviceClass }: Volume, error: LvmdError): LvmdError {
  const left = `logical volume ${name} of device class ${deviceClass} was begun for it, and is left half made`;
  return new LvmdError(error.code, `${error.said}; ${left}`, "finishing a copy", error);
}

/** What the watch has not said yet is asked for: a volume that is made for an object which has just gone belongs to nobody. */
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
  // A shrink of the unmounted source takes place in its lane, too: none begins in between. It may take hours, for which no worker waits.
  if (parts.lanes.isBusy(source)) throw notNow(sourceVolume, "it is being mounted or unmounted");
  await parts.lanes.run(source, async () => {
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
