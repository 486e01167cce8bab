// From attached members to a mounted filesystem: every member published as a device, at most one mkfs, a mount that names each device and
// is compared with what came up. The mkfs comes once no device of any member carries the filesystem, and is recorded before and after;
// whether it may is decided in decide-format.ts, and which members are mounted in decide-mount.ts. Never degraded, and never by a scan:
// btrfs uses only the devices that the mount names.

import { describeVolume, isAttached, membersWithVolume, requiredMembers } from "../../member-drivers/span-member.ts";
import { decideFormat } from "../block/decide-format.ts";
import { probe } from "../block/probe-device.ts";
import { assertWritable } from "../block/resize-member.ts";
import { FORMAT_LIMIT_MS, formatArgs, MOUNT_LIMIT_MS } from "../block/stage.ts";
import { assertNoLink } from "../filesystem/devices-and-mounts.ts";
import type { MountedSpan, SpanVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess } from "../tools.ts";
import { decideMount, type MountCandidate } from "./decide-mount.ts";
import { assertReportedDevice, identityWithin } from "./device-identity.ts";
import { assertSameDevices, findOwnSpan, publishAll } from "./span-devices.ts";
import {
  assertAttached,
  type MemberDevice,
  membersLeft,
  readSpanRecord,
  type SpanHost,
  type SpanStorageRecord,
  spanRecordPath,
  spanRecordText,
} from "./span-host.ts";

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

/** `members`: all that it cannot be mounted without, published. Afterwards it is recorded as mounted. Throws StorageError. */
async function formatFirst(host: SpanHost, volume: SpanVolume, members: readonly MemberDevice[]): Promise<void> {
  const [first] = members;
  // Where any device carries the filesystem, the filesystem exists, and the first member is no longer special.
  if (first === undefined || (await carriesFilesystem(host, volume, members))) {
    await recordMounted(host, volume);
    return;
  }
  const recorded = readSpanRecord(host, volume);
  const subject = {
    ...volume,
    member: `${first.member.name} (claim ${first.member.claim})`,
    remedy: "Delete that claim if its data is not needed",
  };
  const decision = decideFormat(subject, {
    // A node that was down while others used the volume knows less than the cluster.
    record: volume.formatted ? { ...volume, state: "mounted" } : recorded,
    signatures: await probe(host.tools, volume, first.device.path),
    unknownData: undefined, // Whether a device was ever written is unknown.
  });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  if (decision.kind === "format" && !(await anotherCarries(host, volume, members)))
    await format(host, volume, first.device.path);
  await recordMounted(host, volume);
}

/** An agent that dies in it leaves "formatting" on record, by which the next one knows that no process can have written data yet. */
async function format(host: SpanHost, volume: SpanVolume, devicePath: string): Promise<void> {
  const path = spanRecordPath(host, volume);
  await host.files.makeDirectory("span/make-record-directory", host.recordDirectory);
  await host.files.writeWhole("span/record-formatting", path, recordText(volume, "formatting"));
  const args = formatArgs(volume, devicePath);
  const made = await host.tools.run("span/format", "mkfs.btrfs", args, FORMAT_LIMIT_MS);
  expectSuccess(made, `formatting ${devicePath} of ${volume.handle}`);
  await host.files.writeWhole("span/record-formatted", path, recordText(volume, "formatted"));
}

/**
 * Checks every other member that has a volume before a filesystem is made, and gives it back: a layout that is new here may be that of a
 * filesystem which a later member holds. A member that is not here cannot be checked, and nothing is made without it.
 */
async function anotherCarries(host: SpanHost, volume: SpanVolume, seen: readonly MemberDevice[]): Promise<boolean> {
  const names = new Set(seen.map(({ member }) => member.name));
  const others = membersWithVolume(membersLeft(host, volume)).filter(({ name }) => !names.has(name));
  assertAttached(volume, others);
  const published = await publishAll(host, volume, others);
  if (await carriesFilesystem(host, volume, published)) return true;
  for (const { member } of published) await host.devices.unpublish(volume.handle, member);
  return false;
}

async function carriesFilesystem(
  { tools }: SpanHost,
  { fsid }: SpanVolume,
  members: readonly MemberDevice[],
): Promise<boolean> {
  for (const { device } of members) if ((await identityWithin(tools, fsid, device))?.valid === true) return true;
  return false;
}

/** Before the mount: from then on there may be data. */
async function recordMounted(host: SpanHost, volume: SpanVolume): Promise<void> {
  const record = readSpanRecord(host, volume);
  if (record?.state === "mounted") return;
  await host.files.makeDirectory("span/make-record-directory", host.recordDirectory);
  const text = recordText(volume, "mounted", record?.removals);
  await host.files.writeWhole("span/record-mounted", spanRecordPath(host, volume), text);
}

function recordText(
  volume: SpanVolume,
  state: SpanStorageRecord["state"],
  removals: SpanStorageRecord["removals"] = [],
): string {
  const { volumeUID, fsid, fsType } = volume;
  return spanRecordText({ volumeUID, fsid, fsType, state, removals });
}

/**
 * The members that carry the filesystem; throws unless they are all that it has. An agent that died may have added a member without
 * reporting it. Where a member is missing it is looked for among the others. Those recorded as given back count too: another node may have
 * added one again, and its device says so.
 */
async function findInside(
  host: SpanHost,
  volume: SpanVolume,
  required: readonly MemberDevice[],
): Promise<readonly MemberDevice[]> {
  for (const each of required) await assertNothingForeign(host, volume, each);
  let members = required;
  let decision = decideMount(await candidatesOf(host, volume, members));
  if (decision.kind === "refuse" && decision.code === "MembersMissing") {
    const names = new Set(required.map(({ member }) => member.name));
    const others = volume.members.filter((member) => isAttached(member) && !names.has(member.name));
    members = [...required, ...(await publishAll(host, volume, others))];
    decision = decideMount(await candidatesOf(host, volume, members));
  }
  if (decision.kind === "refuse") {
    const without = decision.code === "MembersMissing" ? await describeWithout(host, volume, members) : "";
    throw new StorageError(decision.code, `btrfs ${volume.fsid} of ${volume.handle}: ${decision.message}${without}`);
  }
  const { names } = decision;
  return members.filter(({ member }) => names.includes(member.name));
}

/** For people who look for a member by its driver: those that do not carry the filesystem, by its layout and by this node's record. */
async function describeWithout(host: SpanHost, volume: SpanVolume, members: readonly MemberDevice[]): Promise<string> {
  const carrying = new Set((await candidatesOf(host, volume, members)).map(({ name }) => name));
  const without = membersLeft(host, volume).filter(({ name }) => !carrying.has(name));
  const { former = [] } = volume;
  const seen =
    former.length === 0
      ? ""
      : `. When this node had it mounted last, it was also on ${former.map(describeVolume).join(", ")}`;
  return without.length === 0 ? seen : `. It is not on ${without.map(describeVolume).join(", ")}${seen}`;
}

async function candidatesOf(
  { tools }: SpanHost,
  volume: SpanVolume,
  members: readonly MemberDevice[],
): Promise<MountCandidate[]> {
  const candidates: MountCandidate[] = [];
  for (const each of members) {
    const identity = await identityWithin(tools, volume.fsid, each.device);
    if (identity?.valid !== true) continue;
    assertReportedDevice(each, identity);
    candidates.push({ name: each.member.name, identity });
  }
  return candidates;
}

async function assertNothingForeign(
  host: SpanHost,
  volume: SpanVolume,
  { member, device }: MemberDevice,
): Promise<void> {
  const signatures = await probe(host.tools, volume, device.path);
  const foreign = signatures.find(({ uuid }) => uuid !== volume.fsid);
  if (foreign === undefined) return;
  throw new StorageError(
    "SignatureFound",
    `delete claim ${member.claim} if its data is not needed: it has a ${foreign.type} signature (UUID ${foreign.uuid || "none"})`,
  );
}
