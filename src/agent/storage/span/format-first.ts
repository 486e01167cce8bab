// The only formatting of a span: at most one mkfs ever, on the first member, once no device of any member carries the filesystem, and
// recorded before and after. It is decided in ../format-decision.ts; nothing else here formats.
import { membersWithVolume } from "../../member-drivers/span-member.ts";
import { decideFormat } from "../block/format-decision.ts";
import { probe } from "../block/probe-device.ts";
import { FORMAT_LIMIT_MS, formatArgs } from "../block/stage.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { identityWithin } from "./device-identity.ts";
import { assertAttached, membersLeft } from "./members-left.ts";
import { publishAll } from "./publish-members.ts";
import type { MemberDevice } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { readSpanRecord, type SpanRecord, spanRecordPath, spanRecordText } from "./span-record.ts";

/** `members`: all that it cannot be mounted without, published. Afterwards it is recorded as mounted. Throws StorageError. */
export async function formatFirst(host: SpanHost, volume: SpanVolume, members: readonly MemberDevice[]): Promise<void> {
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
    unknownData: undefined, // Nobody can tell of a device what was never written.
  });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  if (decision.kind === "format" && !(await anotherCarries(host, volume, members)))
    await format(host, volume, first.device.path);
  await recordMounted(host, volume);
}

/** An agent that dies in it leaves "formatting" behind, by which the next one knows that nobody can have written data yet. */
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
