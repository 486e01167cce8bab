// The shrink of a span: members that shall leave are taken out of the mounted btrfs, one after the other, under watch (R1, R2),
// and let go of (R3). Nothing begins for which the other members have too little room; where not all can leave, as many as can do.
import { formatBytes } from "../../../units/quantity.ts";
import { assertWritable } from "../block/grow.ts";
import { busy, metExclusive, metSwapfile, othersOperation } from "../btrfs/others-at-work.ts";
import { stopExclusiveOperation } from "../btrfs/stop-exclusive.ts";
import { describeSwapfiles, swapfileProblem } from "../btrfs/swapfiles.ts";
import { runWatched, type WatchedEnd } from "../btrfs/watched-command.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import { deviceBytesOf, openReader, type Reader } from "../filesystem/read-filesystem.ts";
import { stoppedMessage } from "../shrink-decision.ts";
import { type MountedSpan, type ShrinkControl, type ShrinkResult, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { unlessAborted } from "../unless-aborted.ts";
import { identityWithin } from "./device-identity.ts";
import { type DeviceUsage, readDeviceUsage } from "./device-usage.ts";
import { assertReportedDevice } from "./known-device.ts";
import { type DeviceRoom, nextRemovalMove, type RemovalFacts } from "./removal-decision.ts";
import { restoreDevices } from "./restore-devices.ts";
import { recordRemoval, settleMembers } from "./settle-members.ts";
import { assertOnlyMembers, type MemberDevice, membersInside, mountedDeviceNames } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { whyImmovable } from "./why-immovable.ts";

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
    const others = await othersOperation(host.tools, volume);
    if (others !== undefined) return busy(volume, deviceBytesOf(reader.read()), others);
    await stopExclusiveOperation(host.tools, volume);
    await settleMembers(host, volume);
    await syncFilesystem(host.tools, volume);
    return await removeAll(shrink);
  } finally {
    reader.close();
  }
}

/** One after the other, as nextRemovalMove says; what is left of them when nothing more can be had stays. */
async function removeAll(shrink: Shrink): Promise<ShrinkResult> {
  const { control, reader } = shrink;
  const refused = new Map<string, string>();
  for (let balancesDone = 0; ; ) {
    if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
    const inside = await readInside(shrink);
    const asked = whyImmovable(shrink.host.tools, shrink.volume);
    const immovable = await unlessAborted(asked, control.signal);
    if (control.signal.aborted) continue;
    const facts = factsOf(shrink, inside, refused, { balancesDone, immovable });
    if (facts.leaving.length === 0) return ended(shrink, [...refused.values()]);
    const move = nextRemovalMove(facts);
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
    if (result === "out") control.onStep(reader.read().capacityBytes);
    else if ("refusal" in result) refused.set(move.member, result.refusal);
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
      `btrfs ${volume.fsid} of ${volume.handle} does not tell how much member ${each.member.name} at ${each.device.path} holds`,
    );
  });
}

/** A member that btrfs has found no room for stays, for this time. */
function factsOf(
  { control, reader }: Shrink,
  inside: readonly InsideMember[],
  refused: ReadonlyMap<string, string>,
  known: Pick<RemovalFacts, "balancesDone" | "immovable">,
): RemovalFacts {
  const isLeaving = ({ member }: InsideMember): boolean => member.wanted === "Removed" && !refused.has(member.name);
  const roomOf = ({ member, usage: { sizeBytes, unallocatedBytes } }: InsideMember): DeviceRoom => ({
    member: member.name,
    sizeBytes,
    unallocatedBytes,
  });
  const { capacityBytes, availableBytes } = reader.read();
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
interface Refused {
  readonly refusal: string;
}

async function removeOne(shrink: Shrink, each: InsideMember): Promise<"out" | Refused | ShrinkResult> {
  const { host, volume } = shrink;
  const end = await remove(shrink, each, each.usage);
  assertWritable(volume);
  if (mountedDeviceNames(volume.fsid).includes(each.device.name)) {
    await restoreDevices(host, volume, undefined);
    return judge(shrink, each, end);
  }
  await settleMembers(host, volume);
  return "out";
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
function judge(
  shrink: Shrink,
  { member }: MemberDevice,
  { finished, cancelled: reason }: WatchedEnd,
): Refused | ShrinkResult {
  const { volume, control, reader } = shrink;
  if (reason !== undefined) return cancelled(shrink, reason);
  const sizeBytes = reader.read().capacityBytes;
  if (metExclusive(finished.stderr)) return busy(volume, sizeBytes, finished.stderr.trim());
  if (metSwapfile(finished.stderr)) return { refusal: describeSwapfiles(volume.fsid) };
  if (!/no space left/i.test(finished.stderr))
    expectSuccess(finished, `taking member ${member.name} out of ${volume.handle} (${formatBytes(sizeBytes)})`);
  if (control.signal.aborted) return cancelled(shrink, stoppedMessage(control.signal));
  return { refusal: finished.stderr.trim() };
}

/** No member is left that could leave: all are out but those that btrfs has refused. */
function ended(shrink: Shrink, [refusal]: readonly string[]): ShrinkResult {
  const sizeBytes = shrink.reader.read().capacityBytes;
  if (refusal === undefined) return { outcome: "Succeeded", sizeBytes };
  // It is asked for again once that is off, where the agent can see it.
  const isForSwapfile = refusal === swapfileProblem(shrink.volume.fsid);
  return floor(shrink, sizeBytes, refusal, isForSwapfile ? refusal : undefined);
}

function floor({ reader }: Shrink, floorBytes: number, message: string, immovable?: string): ShrinkResult {
  const reading = reader.read();
  const usedBytes = reading.capacityBytes - reading.availableBytes;
  const sizeBytes = deviceBytesOf(reading);
  const cause = immovable === undefined ? {} : { immovable };
  return { outcome: "FloorReached", sizeBytes, floorBytes, usedBytes, message, ...cause };
}

function cancelled({ reader }: Shrink, message: string): ShrinkResult {
  return { outcome: "Cancelled", sizeBytes: deviceBytesOf(reader.read()), message };
}
