// What is mounted where a span is to be: the span itself, nothing, or something that must be left alone. Reading only, and by what the
// kernel shows: no device is asked.
import { deviceNameOf } from "../../member-drivers/block-device.ts";
import { mountAt } from "../filesystem/mount-table.ts";
import { mountedAnywhere } from "../loop/loop-device.ts";
import { type MountedSpan, type SpanVolume, StorageError } from "../storage.ts";
import { membersInside, mountedDeviceNames, reachableMembers } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";

/** The volume when it is mounted at mountPath from its members; throws WrongFilesystem when something else is. */
export function findOwnSpan(
  host: Pick<SpanHost, "devices">,
  volume: SpanVolume,
  mountPath: string,
): MountedSpan | undefined {
  const found = findMountedSpan(host, volume, mountPath);
  if (found === undefined || membersInside(host, volume, reachableMembers(host, volume)).length > 0) return found;
  const names = mountedDeviceNames(volume.fsid).join(", ") || "no device";
  throw new StorageError(
    "WrongFilesystem",
    `btrfs ${volume.fsid} is mounted from ${names}, and no member of ${volume.handle} is among them: a copy of one is attached to this ` +
      `node; detach it, and unmount ${mountPath}`,
  );
}

/**
 * The same, or what came up in its place and nobody has compared yet: a copy of a member, or a member beside one, which the kernel
 * mounts under another fsid.
 */
export function findMountedSpan(
  host: Pick<SpanHost, "devices">,
  volume: SpanVolume,
  mountPath: string,
): MountedSpan | undefined {
  const mount = mountAt(mountPath);
  if (mount === undefined) return undefined;
  const devices = reachableMembers(host, volume).map(({ device }) => device);
  const source = deviceNameOf(mount.source);
  if (mountedAnywhere(source)?.endsWith(volume.fsid) !== true && !devices.some(({ name }) => name === source))
    throw new StorageError(
      "WrongFilesystem",
      `${mountPath} of ${volume.handle} has ${mount.fsType} from ${mount.source} mounted, not btrfs ${volume.fsid}; unmount it by hand`,
    );
  return { ...volume, device: devices[0]?.path ?? mount.source, mountPath };
}
