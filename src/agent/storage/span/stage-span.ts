// From attached members to a mounted filesystem: every member published as a device, at most one mkfs, a mount that names each
// device and is compared with what came up. Never degraded, and never by a scan: what btrfs is not told it does not use.
import { requiredMembers } from "../../member-drivers/span-member.ts";
import { assertWritable } from "../block/grow.ts";
import { MOUNT_LIMIT_MS } from "../block/stage.ts";
import { assertNoLink } from "../filesystem/mount-point.ts";
import { type MountedSpan, type SpanVolume, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { findInside } from "./find-inside.ts";
import { findOwnSpan } from "./find-span.ts";
import { formatFirst } from "./format-first.ts";
import { assertAttached, membersLeft } from "./members-left.ts";
import { publishAll } from "./publish-members.ts";
import { assertSameDevices, type MemberDevice } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";

export async function stageSpan(host: SpanHost, volume: SpanVolume, mountPath: string): Promise<MountedSpan> {
  const found = findOwnSpan(host, volume, mountPath);
  if (found !== undefined) {
    assertWritable(found);
    return found;
  }
  if (volume.fsType !== "btrfs")
    throw new StorageError("CommandFailed", `${volume.handle} is ${volume.fsType}; only btrfs spans several members`);
  const members = await publishRequired(host, volume);
  await formatFirst(host, volume, members);
  return mountMembers(host, volume, await findInside(host, volume, members), mountPath);
}

/** Those that the filesystem is known to be made of: another one's driver must not keep a pod from starting. */
async function publishRequired(host: SpanHost, volume: SpanVolume): Promise<MemberDevice[]> {
  const required = requiredMembers(membersLeft(host, volume), volume.formatted);
  if (required.length === 0)
    throw new StorageError("WaitingForMember", `${volume.handle} waits for a first member in its layout`);
  assertAttached(volume, required);
  return publishAll(host, volume, required);
}

async function mountMembers(
  host: SpanHost,
  volume: SpanVolume,
  inside: readonly MemberDevice[],
  mountPath: string,
): Promise<MountedSpan> {
  const paths = inside.map(({ device }) => device.path);
  const [first = ""] = paths;
  assertNoLink(mountPath);
  await host.files.makeDirectory("span/make-mount-point", mountPath);
  const options = ["noatime", ...paths.map((path) => `device=${path}`)].join(",");
  const args = ["-t", "btrfs", "-o", options, first, mountPath];
  const task = `mounting btrfs ${volume.fsid} of ${volume.handle} from ${paths.join(", ")} at ${mountPath}`;
  expectSuccess(await host.tools.run("span/mount", "mount", args, MOUNT_LIMIT_MS), task);
  const mounted = { ...volume, device: first, mountPath };
  try {
    assertSameDevices(mounted, inside);
  } catch (error) {
    await host.tools.run("span/unmount-stranger", "umount", [mountPath]);
    throw error;
  }
  return mounted;
}
