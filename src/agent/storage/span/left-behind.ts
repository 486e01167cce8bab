// Whether a device that carries a filesystem's superblock is one that the mounted filesystem has gone on without. Pure, and the proof that
// precedes a wipe for which no record of a removal is on this node: what is not known is no proof.
import type { DeviceIdentity } from "./device-identity.ts";

export interface MountedDevices {
  /** Of the last commit. */
  readonly generation: number;
  /** As the kernel has them in use. */
  readonly devids: readonly number[];
  readonly isMissingOne: boolean;
  /** What the superblocks of the mounted members say. */
  readonly identities: readonly DeviceIdentity[];
}

/**
 * Numbers are given again: where that of the device is in use, each of the filesystem's devices has to be here, and to be another one.
 * A copy of one of them, however old, has that one's UUID.
 */
export function isLeftBehind(found: DeviceIdentity, mounted: MountedDevices): boolean {
  if (!(found.generation < mounted.generation)) return false;
  if (!mounted.devids.includes(found.devid)) return true;
  return isWhole(mounted) && mounted.identities.every(({ deviceUUID }) => deviceUUID !== found.deviceUUID);
}

/**
 * Whether the mounted filesystem has gone on without a device that was reported of it: it is whole, and none of its devices is that one. No
 * filesystem loses a device while it is mounted but by moving everything off it.
 */
export function hasGoneOnWithout({ deviceUUID }: Pick<DeviceIdentity, "deviceUUID">, mounted: MountedDevices): boolean {
  const { devids, identities } = mounted;
  return devids.length > 0 && isWhole(mounted) && identities.every((identity) => identity.deviceUUID !== deviceUUID);
}

function isWhole({ devids, isMissingOne, identities }: MountedDevices): boolean {
  const isKnown = (devid: number): boolean =>
    identities.filter((identity) => identity.valid && identity.devid === devid).length === 1;
  const agree = identities.every(({ deviceCount }) => deviceCount === devids.length);
  return !isMissingOne && identities.length === devids.length && devids.every(isKnown) && agree;
}
