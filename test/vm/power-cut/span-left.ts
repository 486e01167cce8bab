// What a power cut has left of a span, looked at before anything may mend it: by the superblocks in its members' files and by what the node
// has recorded on the other disk.
import { existsSync } from "node:fs";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { btrfsSuperblockRanges } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { DeviceIdentity } from "../../../src/agent/storage/span/decide-mount.ts";
import { parseSuperblock } from "../../../src/agent/storage/span/device-identity.ts";
import { readSpanRecord, removalOf, type SpanStorageRecord } from "../../../src/agent/storage/span/span-host.ts";
import { bytesOf } from "../../integration/storage/span-fixture.ts";
import { checkBtrfs } from "./btrfs-in-machine.ts";
import { RECORDS, say, sh } from "./node-in-machine.ts";
import { fileOf, type KnownSpan, volumeOf } from "./span-layout.ts";

interface LeftMember {
  readonly member: SpanMember;
  readonly identity: DeviceIdentity | undefined;
}

/** UUIDs of devices, by member. */
export type LeftDevices = ReadonlyMap<string, string>;

/** The filesystem has all of its devices and is whole, and whoever is out of it is recorded to be. */
export function lookAtSpan(known: KnownSpan): LeftDevices {
  const record = readSpanRecord({ recordDirectory: RECORDS }, volumeOf(known));
  const left = known.members.map(
    (member): LeftMember => ({ member, identity: identityOf(member, volumeOf(known).fsid) }),
  );
  const carrying = left.filter(({ identity }) => identity?.valid === true);
  say(`left ${JSON.stringify({ state: record?.state, removals: record?.removals, carrying })}`);
  if (known.formatted && record?.state !== "mounted")
    throw new Error(`it is recorded as ${record?.state}, and it was mounted`);
  if (carrying.length === 0) {
    if (record !== undefined && record.state !== "formatting")
      throw new Error(`it is recorded as ${record.state}, and no member carries it`);
    return new Map();
  }
  const inside = assemble(carrying);
  for (const each of left.filter((one) => !inside.includes(one))) expectRecordedOut(each, record);
  for (const { member } of inside)
    if (removalOf(record, member)?.state === "released")
      throw new Error(`${member.name} is recorded as released, and is a device of the filesystem`);
  checkWhole(inside);
  return new Map(inside.map(({ member, identity }) => [member.name, identity?.deviceUUID ?? ""]));
}

/** As many as the newest commit has. One that it has gone on without may carry the superblock of an older one. */
function assemble(carrying: readonly LeftMember[]): readonly LeftMember[] {
  const newest = Math.max(...carrying.map(({ identity }) => identity?.generation ?? 0));
  const count = carrying.find(({ identity }) => identity?.generation === newest)?.identity?.deviceCount ?? 0;
  const inside =
    carrying.length > count ? carrying.filter(({ identity }) => identity?.generation === newest) : carrying;
  if (inside.length !== count)
    throw new Error(`it has ${count} devices, and ${inside.length} of them are here: ${JSON.stringify(carrying)}`);
  return inside;
}

function expectRecordedOut({ member }: LeftMember, record: SpanStorageRecord | undefined): void {
  const removal = removalOf(record, member);
  if (removal?.state === "released") expectWiped(member);
  else if (removal === undefined && member.wasInside)
    throw new Error(`${member.name} is out of the filesystem, and nothing of that is recorded`);
}

/** No superblock, magic number or not, is on it; or it is deleted by now. */
export function expectWiped(member: SpanMember): void {
  const file = fileOf(member);
  if (!existsSync(file)) return;
  for (const { offsetBytes, lengthBytes } of btrfsSuperblockRanges(member.capacityBytes ?? 0))
    if (bytesOf(file, offsetBytes, lengthBytes).some((byte) => byte !== 0))
      throw new Error(`${member.name} is recorded as released, and is not wiped at ${offsetBytes}`);
}

function identityOf(member: SpanMember, fsid: string): DeviceIdentity | undefined {
  const file = fileOf(member);
  return existsSync(file) ? parseSuperblock(sh(`btrfs inspect-internal dump-super --force ${file}`), fsid) : undefined;
}

/** Its devices are found among all block devices. */
function checkWhole(inside: readonly LeftMember[]): void {
  const devices = inside.map(({ member }) => sh(`losetup --find --show --read-only ${fileOf(member)}`).trim());
  try {
    checkBtrfs(devices[0] ?? "", true);
  } finally {
    for (const device of devices) sh(`losetup --detach ${device}`);
  }
}
