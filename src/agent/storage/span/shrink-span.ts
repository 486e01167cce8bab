// The shrink of a span: takes members that shall leave out of the mounted btrfs, one after the other, under watch (R1, R2), and releases
// them (R3). Nothing starts for which the other members have too little room; where not all can leave, as many as can do.

import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { unlessAborted } from "../../../platform/process/async/limited-wait.ts";
import { assertWritable } from "../block/resize-member.ts";
import {
  busy,
  metExclusive,
  metSwapfile,
  othersOperation,
  stopExclusiveOperation,
} from "../btrfs/exclusive-operation.ts";
import { describeSwapfiles, swapfileProblem, whyImmovable } from "../btrfs/immovable-data.ts";
import { runWatched, type WatchedEnd } from "../btrfs/watched-command.ts";
import { stoppedMessage } from "../decide-shrink.ts";
import { mountedDeviceNames } from "../filesystem/devices-and-mounts.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import { deviceBytesOf, type OpenMount } from "../filesystem/mount-reader.ts";
import type { MountedSpan, ShrinkControl, ShrinkResult } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess } from "../tools.ts";
import { type DeviceRoom, decideRemovalMove, type RemovalFacts } from "./decide-removal.ts";
import { assertReportedDevice, type DeviceUsage, identityWithin, readDeviceUsage } from "./device-identity.ts";
import { assertNoneFailed, recordRemoval, releaseEach, restoreDevices } from "./release-members.ts";
import { assertOnlyMembers, type MemberFailure, membersInside } from "./span-devices.ts";
import type { MemberDevice, SpanHost } from "./span-host.ts";

const REMOVE_LIMIT_MS = 24 * 3_600_000;

interface Shrink {
  readonly host: SpanHost;
  readonly volume: MountedSpan;
  readonly control: ShrinkControl;
  readonly opened: OpenMount;
  /** Failures to release members that it has taken out: the others leave first. */
  readonly failures: MemberFailure[];
}

export async function removeMembers(
  host: SpanHost,
  volume: MountedSpan,
  control: ShrinkControl,
): Promise<ShrinkResult> {
  assertWritable(volume);
  const opened = await host.mounts.open(volume);
  try {
    const shrink: Shrink = { host, volume, control, opened, failures: [] };
    // The signal came while the shrink waited for its turn: the operation that goes first must not wait for a driver or a sync.
    if (control.signal.aborted) return await cancelled(shrink, stoppedMessage(control.signal));
    const others = await othersOperation(host.tools, volume);
    if (others !== undefined) return busy(volume, deviceBytesOf(opened.first), others);
    await stopExclusiveOperation(host.tools, volume);
    // A member that left earlier and cannot be released does not fail this shrink: it is tried again, and reported, once nothing else is to
    // do.
    await releaseEach(host, volume, control.signal);
    await syncFilesystem(host.tools, volume);
    const result = await removeAll(shrink);
    if (result.outcome === "Succeeded") assertNoneFailed(shrink.failures);
    return result;
  } finally {
    opened.close();
  }
}

/** One after the other, as decideRemovalMove says; what is left of them when nothing more can be had stays. */
async function removeAll(shrink: Shrink): Promise<ShrinkResult> {
  const { control, opened } = shrink;
  const stuck = new Map<string, string>();
  for (let balancesDone = 0; ; ) {
    if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
    const inside = await readInside(shrink);
    const asked = whyImmovable(shrink.host.tools, shrink.volume);
    const immovable = await unlessAborted(asked, control.signal);
    if (control.signal.aborted) continue;
    const facts = await factsOf(shrink, inside, stuck, { balancesDone, immovable });
    if (facts.leaving.length === 0) return ended(shrink, [...stuck.values()]);
    const move = decideRemovalMove(facts);
    if (move.kind === "floor") return floor(shrink, move.floorBytes, move.message, immovable);
    if (move.kind === "balance") {
      const { cancelled: reason } = await balance(shrink, move.usagePercent);
      balancesDone += 1;
      if (reason !== undefined && !control.signal.aborted) return cancelled(shrink, reason);
      continue;
    }
    const leaving = inside.find(({ member }) => member.name === move.member);
    if (leaving === undefined) throw new Error(`bug: ${move.member} leaves ${shrink.volume.handle}, and is not in it`);
    const result = await removeOne(shrink, leaving);
    if (result === "out") control.onStep((await opened.read()).capacityBytes);
    else if ("noRoom" in result) stuck.set(move.member, result.noRoom);
    else return result;
  }
}

interface InsideMember extends MemberDevice {
  readonly usage: DeviceUsage;
}

/** What btrfs says of each member's device at this moment. */
async function readInside({ host, volume }: Shrink): Promise<InsideMember[]> {
  assertOnlyMembers(host, volume);
  const usages = new Map((await readDeviceUsage(host.tools, volume)).map((usage) => [usage.deviceName, usage]));
  return membersInside(host, volume).map((each) => {
    const usage = usages.get(each.device.name);
    if (usage !== undefined) return { ...each, usage };
    throw new StorageError(
      "CommandFailed",
      `btrfs ${volume.fsid} does not report how much member ${each.member.name} at ${each.device.path} holds`,
    );
  });
}

/** A member that btrfs has found no room for stays, for this time. */
async function factsOf(
  { control, opened }: Shrink,
  inside: readonly InsideMember[],
  stuck: ReadonlyMap<string, string>,
  known: Pick<RemovalFacts, "balancesDone" | "immovable">,
): Promise<RemovalFacts> {
  const isLeaving = ({ member }: InsideMember): boolean => member.wanted === "Removed" && !stuck.has(member.name);
  const roomOf = ({ member, usage: { sizeBytes, unallocatedBytes } }: InsideMember): DeviceRoom => ({
    member: member.name,
    sizeBytes,
    unallocatedBytes,
  });
  const { capacityBytes, availableBytes } = await opened.read();
  return {
    leaving: inside.filter(isLeaving).map(roomOf),
    staying: inside.filter((each) => !isLeaving(each)).map(roomOf),
    capacityBytes,
    availableBytes,
    reserveBytes: control.reserveBytes(),
    ...known,
  };
}

/** btrfs has found no room for what this member holds. */
interface NoRoom {
  readonly noRoom: string;
}

async function removeOne(shrink: Shrink, each: InsideMember): Promise<"out" | NoRoom | ShrinkResult> {
  const { host, volume, control } = shrink;
  const end = await remove(shrink, each, each.usage);
  assertWritable(volume);
  if (mountedDeviceNames(volume.fsid).includes(each.device.name)) {
    await restoreDevices(host, volume, undefined);
    return judge(shrink, each, end);
  }
  shrink.failures.push(...(await releaseEach(host, volume, control.signal, ({ name }) => name === each.member.name)));
  return "out";
}

async function remove(
  { host, volume, control, opened }: Shrink,
  each: MemberDevice,
  { devid, sizeBytes }: DeviceUsage,
): Promise<WatchedEnd> {
  const { member, device } = each;
  const identity = await identityWithin(host.tools, volume.fsid, device);
  if (identity?.valid !== true || identity.devid !== devid)
    throw new StorageError(
      "WrongFilesystem",
      `member ${member.name} is not taken out: ${device.path} has no superblock of device ${devid} of this btrfs`,
    );
  assertReportedDevice(each, identity);
  const { deviceUUID } = identity;
  const removal = { member: member.name, devid, deviceUUID, sizeBytes, state: "leaving" } as const;
  await recordRemoval(host, volume, member, removal, "leaving");
  // By its number, never by its path: a path may lead to another device by now.
  const args = ["device", "remove", String(devid), volume.mountPath];
  return runWatched(host, volume, opened, control, () =>
    host.tools.run("span/remove-device", "btrfs", args, REMOVE_LIMIT_MS),
  );
}

function balance({ host, volume, control, opened }: Shrink, usagePercent: number): Promise<WatchedEnd> {
  const args = ["balance", "start", `-dusage=${usagePercent}`, volume.mountPath];
  return runWatched(host, volume, opened, control, () =>
    host.tools.run("shrink/balance", "btrfs", args, REMOVE_LIMIT_MS),
  );
}

/** It is still inside: cancelled, or btrfs found no room for it. */
async function judge(
  shrink: Shrink,
  { member }: MemberDevice,
  { finished, cancelled: reason }: WatchedEnd,
): Promise<NoRoom | ShrinkResult> {
  const { volume, control, opened } = shrink;
  if (reason !== undefined) return cancelled(shrink, reason);
  const sizeBytes = (await opened.read()).capacityBytes;
  if (metExclusive(finished.stderr)) return busy(volume, sizeBytes, finished.stderr.trim());
  if (metSwapfile(finished.stderr)) return { noRoom: describeSwapfiles(volume.fsid) };
  if (!/no space left/i.test(finished.stderr))
    expectSuccess(finished, `taking member ${member.name} out of ${volume.handle} (${formatBytes(sizeBytes)})`);
  if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
  return { noRoom: finished.stderr.trim() };
}

/** No member is left that could leave: all are out but those that btrfs has found no room for. */
async function ended(shrink: Shrink, [refusal]: readonly string[]): Promise<ShrinkResult> {
  const sizeBytes = (await shrink.opened.read()).capacityBytes;
  if (refusal === undefined) return { outcome: "Succeeded", sizeBytes };
  // It is asked for again once that is off, where the agent can see it.
  const isForSwapfile = refusal === swapfileProblem(shrink.volume.fsid);
  return floor(shrink, sizeBytes, refusal, isForSwapfile ? refusal : undefined);
}

async function floor(
  { opened }: Shrink,
  floorBytes: number,
  message: string,
  immovable?: string,
): Promise<ShrinkResult> {
  const reading = await opened.read();
  const usedBytes = reading.capacityBytes - reading.availableBytes;
  const sizeBytes = deviceBytesOf(reading);
  const cause = immovable === undefined ? {} : { immovable };
  return { outcome: "FloorReached", sizeBytes, floorBytes, usedBytes, message, ...cause };
}

async function cancelled({ opened }: Shrink, message: string): Promise<ShrinkResult> {
  return { outcome: "Cancelled", sizeBytes: deviceBytesOf(await opened.read()), message };
}
