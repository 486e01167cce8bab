// Which active swapfiles are on a btrfs: the kernel moves no data of one, and lets the device that it is on leave no span (ETXTBSY at once,
// nothing is changed). Other devices leave all the same. Reading only.
import { readFileSync } from "node:fs";
import { deviceNameOf } from "../../member-drivers/block-device.ts";
import { type Mount, parseMounts, unescapeOctal } from "../filesystem/mount-table.ts";
import { mountedDeviceNames } from "../span/span-devices.ts";

/** Why nothing is begun that would move one, in words; undefined: no swapfile of the node is on it. A swapfile by a container's own path is not found. */
export function swapfileProblem(fsid: string): string | undefined {
  const paths = swapfilePaths(readFileSync("/proc/swaps", "utf8"));
  if (paths.length === 0) return undefined;
  const mounts = parseMounts(readFileSync("/proc/self/mountinfo", "utf8"));
  const own = swapfilesOn(paths, mounts, mountedDeviceNames(fsid));
  return own.length === 0 ? undefined : describe(own.join(", "));
}

/** For people, where the kernel has refused for one. */
export function describeSwapfiles(fsid: string): string {
  const paths = swapfilePaths(readFileSync("/proc/swaps", "utf8"));
  return swapfileProblem(fsid) ?? describe(paths.length === 0 ? undefined : `one of the node's: ${paths.join(", ")}`);
}

function describe(named: string | undefined): string {
  const files = named === undefined ? "" : ` (${named})`;
  return `an active swapfile is on it${files}, and the kernel moves no data of one: swapoff it first`;
}

/** Of the text of /proc/swaps; partitions are left out. */
export function swapfilePaths(swaps: string): string[] {
  const paths = swaps.split("\n").map((line) => /^(\S+)\s+file\s/.exec(line)?.[1]);
  return paths.filter((path) => path !== undefined).map(unescapeOctal);
}

/** Those whose nearest mount is one of a btrfs of these devices, by their names in sysfs. */
export function swapfilesOn(
  paths: readonly string[],
  mounts: readonly Mount[],
  deviceNames: readonly string[],
): string[] {
  return paths.filter((path) => {
    const mount = nearestMount(path, mounts);
    return mount?.fsType === "btrfs" && deviceNames.includes(deviceNameOf(mount.source));
  });
}

/** Of several at one path the last: it hides the others. */
function nearestMount(path: string, mounts: readonly Mount[]): Mount | undefined {
  const above = mounts.filter(({ mountPath }) => mountPath === "/" || path.startsWith(`${mountPath}/`));
  return above.reduce<Mount | undefined>(
    (nearest, mount) => (mount.mountPath.length >= (nearest?.mountPath.length ?? 0) ? mount : nearest),
    undefined,
  );
}
