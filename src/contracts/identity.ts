// How one volume is named everywhere: the handle in CSI and on the FilesystemLayout, and the filesystem's UUID. Both follow from the volume
// UID alone, so that a repeated CreateVolume and a rebuild arrive at the same names. Pure.

import { invalidArgument, Refusal } from "./csi/refusal.ts";
import { shortened } from "./printable.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const HANDLE_PREFIX = "fs-";
const SNAPSHOT_PREFIX = "snap-";
const FSID_MASK = "7469646d-6172-4b00-8000-000000000000"; // "tidmark" in ASCII; keeps fsid apart from the claim's UID

export function isUUID(text: string): boolean {
  return UUID.test(text);
}

/** The CSI volume handle and FilesystemLayout name of a volume UID (the claim's UID). */
export function volumeHandleOf(volumeUID: string): string {
  return `${HANDLE_PREFIX}${volumeUID}`;
}

/** The volume UID in a handle; undefined when the text is not a handle of ours. Strict: this guards every path made from it. */
export function volumeUIDOf(volumeHandle: string): string | undefined {
  const uid = volumeHandle.startsWith(HANDLE_PREFIX) ? volumeHandle.slice(HANDLE_PREFIX.length) : "";
  return isUUID(uid) ? uid : undefined;
}

/** The CSI snapshot id, and the name of its LogicalVolume. */
export function snapshotIdOf(snapshotUID: string): string {
  return `${SNAPSHOT_PREFIX}${snapshotUID}`;
}

/** The inverse; undefined when the text is not a snapshot id of ours. As strict as volumeUIDOf. */
export function snapshotUIDOf(snapshotId: string): string | undefined {
  const uid = snapshotId.startsWith(SNAPSHOT_PREFIX) ? snapshotId.slice(SNAPSHOT_PREFIX.length) : "";
  return isUUID(uid) ? uid : undefined;
}

/** The filesystem UUID of a volume: chosen before mkfs, so that it can be recorded before mkfs. */
export function fsidOf(volumeUID: string): string {
  const mask = FSID_MASK.replaceAll("-", "");
  const uid = volumeUID.replaceAll("-", "");
  let hex = "";
  for (let i = 0; i < 32; i += 1)
    hex += (Number.parseInt(uid[i] ?? "0", 16) ^ Number.parseInt(mask[i] ?? "0", 16)).toString(16);
  return uuidOfHex(hex);
}

/** The UUID of the first 32 of these hexadecimal digits. */
export function uuidOfHex(hex: string): string {
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

// Requests bring volume ids of any text. Only one of this syntax is looked up, written down or made a path of.

/** As CSI limits strings: no more of an invalid id is repeated in messages and logs. */
const SHOWN_LIMIT_CHARACTERS = 128;

/** Throws a Refusal: why a call that needs an existing volume cannot be answered. */
export function handleOf(volumeId: string): string {
  if (volumeId === "") throw invalidArgument("the volume id is missing");
  if (volumeUIDOf(volumeId) === undefined)
    throw noVolume(volumeId, "it is not a volume handle of Tidemark (fs- and a UUID in lower case)");
  return volumeId;
}

export function noVolume(volumeId: string, why: string): Refusal {
  return new Refusal("NOT_FOUND", `there is no volume "${shownVolumeId(volumeId)}": ${why}`);
}

export function shownVolumeId(volumeId: string): string {
  return shortened(volumeId, SHOWN_LIMIT_CHARACTERS);
}
