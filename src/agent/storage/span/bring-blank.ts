// The device of a member that is outside of a mounted span, brought to this node to be used: nobody else holds it, and it carries nothing. The
// node may have opened it by itself for what it carries (LVM, MD, multipath): then that is why it is not used, not that it is busy.
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { waitForExclusive } from "../block/probe-device.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import { assertBlank, refusalOf } from "./blank-device.ts";
import { publishAnew } from "./publish-members.ts";
import { mountedDeviceNames, reachableMembers } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";

/** Throws SignatureFound where it carries something, also where somebody holds it. The signal ends only a wait for its driver. */
export async function bringBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  signal: AbortSignal | undefined,
): Promise<BlockDevice> {
  if (refusalOf(host, volume, member) !== undefined) {
    // Where it is: whoever looks at what it carries has it for as long.
    const [shown] = reachableMembers(host, { ...volume, members: [member] });
    if (shown !== undefined) await assertBlank(host, volume, member, shown.device);
  }
  const device = await unlessRefused(host, volume, member, () => publishAnew(host, volume, member, signal));
  await assertBlank(host, volume, member, device);
  return device;
}

/** The same of a device that was brought before. */
export async function assertStillBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
): Promise<void> {
  await unlessRefused(host, volume, member, () => waitForExclusive(volume, device.path));
  await assertBlank(host, volume, member, device);
}

async function unlessRefused<T>(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StorageError) || error.code !== "DeviceBusy") throw error;
    const [held] = reachableMembers(host, { ...volume, members: [member] });
    // A dead agent's command may have taken it in meanwhile.
    const isInside = held !== undefined && mountedDeviceNames(volume.fsid).includes(held.device.name);
    if (held !== undefined && !isInside) await assertBlank(host, volume, member, held.device);
    throw error;
  }
}
