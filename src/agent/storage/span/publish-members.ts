// Members' devices, brought to this node by their drivers for a filesystem that is not mounted, or for a member that is not in it yet.
// What is at a member's path from before, a reboot perhaps, is never taken for its device.
import type { BlockDevice } from "../../member/block-device.ts";
import type { SpanMember } from "../../member/span-member.ts";
import { probe, waitForExclusive } from "../stage.ts";
import type { SpanVolume } from "../storage.ts";
import { type MemberDevice, mountedDeviceNames, reachableMembers } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { unlessStopped } from "./unless-stopped.ts";

export async function publishAll(
  host: SpanHost,
  volume: SpanVolume,
  members: readonly SpanMember[],
): Promise<MemberDevice[]> {
  const published: MemberDevice[] = [];
  for (const member of members) published.push({ member, device: await publishAnew(host, volume, member) });
  return published;
}

/**
 * Of a member that is in no mounted filesystem. What an earlier stage or extend has left of it is given back first. `signal` ends the
 * wait for its driver.
 */
export async function publishAnew(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<BlockDevice> {
  const [left] = reachableMembers(host, { ...volume, members: [member] });
  const mounted = mountedDeviceNames(volume.fsid);
  // Mounted, here or elsewhere on this node: what it may be made of is not taken away from under it. The wait below tells who has it.
  const isInUse = mounted.length > 0 && (left === undefined || mounted.includes(left.device.name));
  if (!isInUse) await giveBackLeft(host, volume, member, left?.device);
  const device = await unlessStopped(host.devices.publish(volume.handle, member), signal);
  await waitForExclusive(volume, device.path);
  return device;
}

async function giveBackLeft(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  left: BlockDevice | undefined,
): Promise<void> {
  if (left !== undefined && !(await isForeign(host, volume, left))) {
    // A dead agent's mkfs may still have it.
    await waitForExclusive(volume, left.path);
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", left.path]);
  }
  await host.devices.unpublish(volume.handle, member);
}

/** By now the path leads to somebody else's disk, or to one that does not answer: nobody's business here. */
async function isForeign({ tools }: SpanHost, volume: SpanVolume, { path }: BlockDevice): Promise<boolean> {
  try {
    return (await probe(tools, volume, path)).some(({ uuid }) => uuid !== volume.fsid);
  } catch {
    return true;
  }
}
