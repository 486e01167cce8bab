// The shrink of a span: members that shall leave are taken out of the mounted btrfs, one after the other, under watch (R1, R2),
// and let go of (R3). Nothing begins for which the other members have too little room.
import { formatBytes } from "../../../units/quantity.ts";
import { stopExclusiveOperation } from "../exclusive-operation.ts";
import { syncFilesystem } from "../fresh-reading.ts";
import { assertWritable } from "../grow.ts";
import { openReader, type Reader } from "../read-filesystem.ts";
import { stoppedMessage } from "../shrink-decision.ts";
import { type MountedSpan, type ShrinkControl, type ShrinkResult, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { runWatched, type WatchedEnd } from "../watched-command.ts";
import { identityWithin } from "./device-identity.ts";
import { type DeviceUsage, readDeviceUsage } from "./device-usage.ts";
import { assertReportedDevice } from "./known-device.ts";
import { nextRemovalMove, type RemovalMove } from "./removal-decision.ts";
import { restoreDevices } from "./restore-devices.ts";
import { recordRemoval, settleMembers } from "./settle-members.ts";
import { assertOnlyMembers, type MemberDevice, membersInside, mountedDeviceNames } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";

const REMOVE_LIMIT_MS = 24 * 3_600_000;

interface Shrink {
  readonly host: SpanHost;
  readonly volume: MountedSpan;
  readonly control: ShrinkControl;
  readonly reader: Reader;
}

export async function removeMembers(
  host: SpanHost,
  volume: MountedSpan,
  control: ShrinkControl,
): Promise<ShrinkResult> {
  assertWritable(volume);
  const reader = openReader(volume);
  try {
    const shrink = { host, volume, control, reader };
    // Told to stop while it waited its turn: whoever goes first is not to wait for a driver or a sync.
    if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
    await stopExclusiveOperation(host.tools, volume);
    await settleMembers(host, volume);
    await syncFilesystem(host.tools, volume);
    return await removeAll(shrink);
  } finally {
    reader.close();
  }
}

/** The newest first: it holds the least. */
async function removeAll(shrink: Shrink): Promise<ShrinkResult> {
  const { host, volume, control, reader } = shrink;
  const leaving = membersInside(host, volume).filter(({ member }) => member.wanted === "Removed");
  for (const each of leaving.reverse()) {
    if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
    const result = await removeOne(shrink, each);
    if (result !== undefined) return result;
    control.onStep(reader.read().capacityBytes);
  }
  return { outcome: "Succeeded", sizeBytes: reader.read().capacityBytes };
}

/** Why the shrink ends here; undefined when the member is out. */
async function removeOne(shrink: Shrink, each: MemberDevice): Promise<ShrinkResult | undefined> {
  const { host, volume, control, reader } = shrink;
  for (let balancesDone = 0; ; ) {
    const usage = await usageOf(shrink, each);
    const move = await decide(shrink, each, usage, balancesDone);
    if (move.kind === "floor")
      return {
        outcome: "FloorReached",
        sizeBytes: reader.read().capacityBytes,
        floorBytes: move.floorBytes,
        message: move.message,
      };
    if (move.kind === "balance") {
      const ended = await balance(shrink, move.usagePercent);
      balancesDone += 1;
      if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
      if (ended.cancelled !== undefined) return cancelled(shrink, ended.cancelled);
      continue;
    }
    const ended = await remove(shrink, each, usage);
    assertWritable(volume);
    if (mountedDeviceNames(volume.fsid).includes(each.device.name)) {
      await restoreDevices(host, volume);
      return judge(shrink, each, ended);
    }
    await settleMembers(host, volume);
    return undefined;
  }
}

async function usageOf({ host, volume }: Shrink, { member, device }: MemberDevice): Promise<DeviceUsage> {
  const usage = (await readDeviceUsage(host.tools, volume)).find(({ deviceName }) => deviceName === device.name);
  if (usage !== undefined) return usage;
  throw new StorageError(
    "CommandFailed",
    `btrfs ${volume.fsid} of ${volume.handle} does not tell how much member ${member.name} at ${device.path} holds`,
  );
}

async function decide(
  { host, volume, control, reader }: Shrink,
  { member }: MemberDevice,
  { devid, sizeBytes, unallocatedBytes }: DeviceUsage,
  balancesDone: number,
): Promise<RemovalMove> {
  assertOnlyMembers(host, volume);
  const others = (await readDeviceUsage(host.tools, volume)).filter((usage) => usage.devid !== devid);
  const staying = new Set(
    membersInside(host, volume)
      .filter((each) => each.member.wanted !== "Removed")
      .map(({ device }) => device.name),
  );
  const { capacityBytes, availableBytes } = reader.read();
  return nextRemovalMove({
    member: member.name,
    deviceBytes: sizeBytes,
    allocatedBytes: sizeBytes - unallocatedBytes,
    othersUnallocatedBytes: others
      .filter(({ deviceName }) => staying.has(deviceName))
      .reduce((sum, usage) => sum + usage.unallocatedBytes, 0),
    capacityBytes,
    availableBytes,
    reserveBytes: control.reserveBytes(),
    balancesDone,
  });
}

async function remove(
  { host, volume, control, reader }: Shrink,
  each: MemberDevice,
  { devid, sizeBytes }: DeviceUsage,
): Promise<WatchedEnd> {
  const { member, device } = each;
  const identity = await identityWithin(host.tools, volume.fsid, device);
  if (identity?.valid !== true || identity.devid !== devid)
    throw new StorageError(
      "WrongFilesystem",
      `member ${member.name} of ${volume.handle} at ${device.path} has no superblock of device ${devid} of btrfs ${volume.fsid}; ` +
        "it is not taken out",
    );
  assertReportedDevice(volume, each, identity);
  const { deviceUUID } = identity;
  const removal = { member: member.name, devid, deviceUUID, sizeBytes, state: "leaving" } as const;
  await recordRemoval(host, volume, member, removal, "leaving");
  // By its number, never by its path: a path may lead to another device by now.
  const args = ["device", "remove", String(devid), volume.mountPath];
  return runWatched(host, volume, reader, control, () =>
    host.tools.run("span/remove-device", "btrfs", args, REMOVE_LIMIT_MS),
  );
}

function balance({ host, volume, control, reader }: Shrink, usagePercent: number): Promise<WatchedEnd> {
  const args = ["balance", "start", `-dusage=${usagePercent}`, volume.mountPath];
  return runWatched(host, volume, reader, control, () =>
    host.tools.run("shrink/balance", "btrfs", args, REMOVE_LIMIT_MS),
  );
}

/** It is still inside: cancelled, or btrfs found no room for it. */
function judge(shrink: Shrink, { member }: MemberDevice, { finished, cancelled: reason }: WatchedEnd): ShrinkResult {
  const { volume, control, reader } = shrink;
  if (reason !== undefined) return cancelled(shrink, reason);
  const sizeBytes = reader.read().capacityBytes;
  if (!/no space left/i.test(finished.stderr))
    expectSuccess(finished, `taking member ${member.name} out of ${volume.handle} (${formatBytes(sizeBytes)})`);
  if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
  return { outcome: "FloorReached", sizeBytes, floorBytes: sizeBytes, message: finished.stderr.trim() };
}

function cancelled({ reader }: Shrink, message: string): ShrinkResult {
  return { outcome: "Cancelled", sizeBytes: reader.read().capacityBytes, message };
}
