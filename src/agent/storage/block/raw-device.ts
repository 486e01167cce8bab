// Where a raw block volume is to be seen on its node: its device is bound to a file in kubelet's staging directory, and from there to
// the pods'. The kernel's own mounts say that it is staged, so that a reboot ends that as it does for a filesystem. Reading only.
import { basename, dirname, join } from "node:path";
import { blockDeviceAt, mountsOfNode } from "../filesystem/devices-and-mounts.ts";
import type { MountedVolume } from "../storage.ts";

const DEVICE_FILE = "device";

export function stagedDevicePath(stagingPath: string): string {
  return join(stagingPath, DEVICE_FILE);
}

/** What pods are shown of a staged volume: the filesystem, or the device. */
export function shownPath({
  volumeMode,
  mountPath,
}: Pick<MountedVolume, "mountPath"> & { volumeMode?: string }): string {
  return volumeMode === "Block" ? stagedDevicePath(mountPath) : mountPath;
}

/** Every path at which the device, by the kernel's name of it, is bound: staged, published, and kubelet's own. */
export function bindsOfDevice(device: string): string[] {
  return mountsOfNode(basename(device))
    .map(({ mountPath }) => mountPath)
    .filter((path) => blockDeviceAt(path)?.path === device);
}

/** Undefined: it is staged nowhere. */
export function stagingPathOf(device: string): string | undefined {
  const staged = bindsOfDevice(device).find((path) => basename(path) === DEVICE_FILE);
  return staged === undefined ? undefined : dirname(staged);
}
