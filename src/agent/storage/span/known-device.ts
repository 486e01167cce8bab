// Whether the device that is found where a member's driver has published it is the one that it was: a path may lead to another disk
// after a reboot, and a name to another volume. Pure; throws WrongFilesystem, and whoever asks touches nothing then.
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import type { DeviceIdentity } from "./device-identity.ts";
import type { MemberDevice } from "./span-devices.ts";
import type { Removal } from "./span-record.ts";

/** `identity`: of a device that carries this volume's filesystem. Where nothing was ever reported there is nothing to compare with. */
export function assertReportedDevice(
  { handle, fsid }: Pick<SpanVolume, "handle" | "fsid">,
  { member, device }: MemberDevice,
  { deviceUUID, devid }: Pick<DeviceIdentity, "deviceUUID" | "devid">,
): void {
  const { reported } = member;
  if (reported === undefined || (reported.deviceUUID === deviceUUID && reported.devid === devid)) return;
  throw new StorageError(
    "WrongFilesystem",
    `member ${member.name} of ${handle} was reported as device ${reported.devid} (${reported.deviceUUID}) of btrfs ${fsid}, and what its ` +
      `driver has published at ${device.path} is device ${devid} (${deviceUUID}): it leads to another disk. Nothing is mounted or ` +
      `wiped; see whether claim ${member.claim} has the right volume, and whether its driver publishes the right device`,
  );
}

/** What is recorded of a removal, which is about one volume, whatever has the member's name by now. */
export function assertRecordedVolume(
  { handle }: Pick<SpanVolume, "handle">,
  { name, volume, persistentVolumeUID }: SpanMember,
  { volume: recorded }: Pick<Removal, "volume">,
): void {
  if (recorded === undefined || volume === undefined) return;
  const isSame = recorded.driver === volume.driver && recorded.volumeHandle === volume.volumeHandle;
  const uids = new Set([recorded.persistentVolumeUID, persistentVolumeUID].filter((uid) => uid !== undefined));
  if (isSame && uids.size < 2) return;
  throw new StorageError(
    "WrongFilesystem",
    `member ${name} of ${handle} was taken out as volume ${recorded.volumeHandle} of ${recorded.driver} (PersistentVolume ` +
      `${recorded.persistentVolumeUID ?? "not known"}), and is volume ${volume.volumeHandle} of ${volume.driver} ` +
      `(${persistentVolumeUID ?? "not known"}) by now; it is neither wiped nor deleted`,
  );
}

/** What identifies a member's volume, for the record of its removal. */
export function recordedVolume({ volume, persistentVolumeUID }: SpanMember): Removal["volume"] {
  if (volume === undefined) return undefined;
  const { driver, volumeHandle } = volume;
  return { driver, volumeHandle, ...(persistentVolumeUID === undefined ? {} : { persistentVolumeUID }) };
}
