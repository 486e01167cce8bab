// From attached members to a mounted filesystem: every member published as a device, at most one mkfs, a mount that names each
// device and is compared with what came up. Never degraded, and never by a scan: what btrfs is not told it does not use.
import { deviceNameOf } from "../../member/block-device.ts";
import {
  describeAwaited,
  isAttached,
  membersWithVolume,
  requiredMembers,
  type SpanMember,
} from "../../member/span-member.ts";
import { decideFormat } from "../format-decision.ts";
import { assertWritable } from "../grow.ts";
import { mountedAnywhere } from "../loop-device.ts";
import { assertNoLink } from "../mount-point.ts";
import { mountAt } from "../mount-table.ts";
import { FORMAT_LIMIT_MS, formatArgs, MOUNT_LIMIT_MS, probe } from "../stage.ts";
import { type MountedSpan, type SpanVolume, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { identityWithin } from "./device-identity.ts";
import { assertReportedDevice } from "./known-device.ts";
import { decideMount, type MountCandidate } from "./mount-decision.ts";
import { publishAll } from "./publish-members.ts";
import {
  assertSameDevices,
  type MemberDevice,
  membersInside,
  mountedDeviceNames,
  reachableMembers,
} from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { readSpanRecord, removalOf, type SpanRecord, spanRecordPath, spanRecordText } from "./span-record.ts";

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

/** Those that the filesystem is known to be made of: another one's driver must not keep a pod from starting. */
async function publishRequired(host: SpanHost, volume: SpanVolume): Promise<MemberDevice[]> {
  const required = requiredMembers(membersLeft(host, volume), volume.formatted);
  if (required.length === 0)
    throw new StorageError("WaitingForMember", `${volume.handle} waits for a first member in its layout`);
  assertAttached(volume, required);
  return publishAll(host, volume, required);
}

function assertAttached({ handle }: SpanVolume, members: readonly SpanMember[]): void {
  const awaited = members.filter((member) => !isAttached(member));
  if (awaited.length === 0) return;
  throw new StorageError("WaitingForMember", `${handle} waits for ${awaited.map(describeAwaited).join(" and ")}`);
}

/** Without those that have been given back; one that shall leave may still hold data. */
function membersLeft(host: SpanHost, volume: SpanVolume): readonly SpanMember[] {
  const record = readSpanRecord(host, volume);
  return volume.members.filter(({ name }) => removalOf(record, name)?.state !== "released");
}

async function formatFirst(host: SpanHost, volume: SpanVolume, members: readonly MemberDevice[]): Promise<void> {
  const [first] = members;
  // Where any device carries the filesystem there is one, and the first member is not a special one any more.
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
    allocatedBytes: 0, // Nobody can tell of a device what was never written.
  });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  const path = spanRecordPath(host, volume);
  if (decision.kind === "format" && !(await anotherCarries(host, volume, members))) {
    await host.files.makeDirectory("span/make-record-directory", host.recordDirectory);
    await host.files.writeWhole("span/record-formatting", path, recordText(volume, "formatting"));
    const args = formatArgs(volume, first.device.path);
    const made = await host.tools.run("span/format", "mkfs.btrfs", args, FORMAT_LIMIT_MS);
    expectSuccess(made, `formatting ${first.device.path} of ${volume.handle}`);
    await host.files.writeWhole("span/record-formatted", path, recordText(volume, "formatted"));
  }
  await recordMounted(host, volume);
}

/**
 * Every other member that has a volume is looked at before a filesystem is made, and given back: a layout that is new here may be that
 * of a filesystem which a later member holds. One that is not here cannot be looked at, and nothing is made without it.
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

function recordText(volume: SpanVolume, state: SpanRecord["state"], removals: SpanRecord["removals"] = []): string {
  const { volumeUID, fsid, fsType } = volume;
  return spanRecordText({ volumeUID, fsid, fsType, state, removals });
}

/**
 * The members that carry the filesystem; throws unless they are all that it has. An agent that died may have taken one in and told
 * nobody: where one is missing, it is looked for among the others.
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
    const others = membersLeft(host, volume).filter((member) => isAttached(member) && !names.has(member.name));
    members = [...required, ...(await publishAll(host, volume, others))];
    decision = decideMount(await candidatesOf(host, volume, members));
  }
  if (decision.kind === "refuse")
    throw new StorageError(decision.code, `btrfs ${volume.fsid} of ${volume.handle}: ${decision.message}`);
  const { names } = decision;
  return members.filter(({ member }) => names.includes(member.name));
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
    assertReportedDevice(volume, each, identity);
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
    `member ${member.name} of ${volume.handle} at ${device.path} carries a ${foreign.type} signature (UUID ` +
      `${foreign.uuid || "none"}); it is left as it is. Delete claim ${member.claim} if its data is not needed`,
  );
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
