// From nothing, or from wherever a crash left it, to a mounted filesystem: member, device, at most one mkfs, mount.
// Each step looks at the world first, so that a second call continues or changes nothing.
import { basename } from "node:path";
import { assertNoLink } from "../filesystem/mount-point.ts";
import { isMountOf, mountAt } from "../filesystem/mount-table.ts";
import { mountedAnywhere } from "../loop/loop-device.ts";
import { type FilesystemVolume, type Mounted, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";
import { decideFormat, type FormatSubject, recordOfAnother } from "./format-decision.ts";
import { assertWritable, requireMember } from "./grow.ts";
import { type MemberRecord, memberRecordPath, memberRecordText, readMemberRecord } from "./member-record.ts";
import { probe, waitForExclusive } from "./probe-device.ts";
import { takeCopy } from "./take-copy.ts";

export const FORMAT_LIMIT_MS = 120_000;
export const MOUNT_LIMIT_MS = 120_000; // Log replay after a power cut included.

export async function stage<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  sizeBytes: number,
  mountPath: string,
): Promise<Mounted<V>> {
  const mounted = await findOwn(host, volume, mountPath);
  if (mounted !== undefined) {
    assertWritable(mounted);
    requireMember(host, mounted);
    return mounted;
  }
  await host.members.make(volume, sizeBytes);
  const device = await host.members.attach(volume);
  await waitForExclusive(volume, device);
  await takeCopy(host, volume, device);
  await formatOnce(host, volume, device);
  return mountFilesystem(host, volume, device, mountPath);
}

/** The same, where its member's record names no other volume: a layout that was edited by hand may name another's member. */
export async function findOwn<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  mountPath: string,
): Promise<Mounted<V> | undefined> {
  const mounted = await findMounted(host, volume, mountPath);
  const stranger = mounted && recordOfAnother(subjectOf(host, volume), readableRecord(host, volume));
  if (stranger !== undefined) throw new StorageError(stranger.code, stranger.message);
  return mounted;
}

// One that cannot be read forbids a mkfs; of what is mounted already it says nothing.
function readableRecord<V extends OneMemberVolume>(host: BlockHost<V>, volume: V): MemberRecord | undefined {
  try {
    return readMemberRecord(host.recordDirectory, host.members.recordName(volume));
  } catch {
    return undefined;
  }
}

/** The volume when it is what is mounted at mountPath; throws WrongFilesystem when something else is. */
export async function findMounted<V extends OneMemberVolume>(
  { members }: BlockHost<V>,
  volume: V,
  mountPath: string,
): Promise<Mounted<V> | undefined> {
  const mount = mountAt(mountPath);
  if (mount === undefined) return undefined;
  const device = (await members.devices(volume)).find((candidate) => isMountOf(mount, candidate));
  if (device === undefined)
    throw new StorageError(
      "WrongFilesystem",
      `${mountPath} of ${volume.handle} has ${mount.fsType} from ${mount.source} mounted, not member ${members.nameOf(volume)}; ` +
        "unmount it by hand",
    );
  return { ...volume, device, mountPath };
}

async function formatOnce<V extends OneMemberVolume>(host: BlockHost<V>, volume: V, device: string): Promise<void> {
  const { members, recordDirectory } = host;
  const record = readMemberRecord(recordDirectory, members.recordName(volume));
  const signatures = await probe(host.tools, volume, device);
  const unknownData = await members.unknownData(volume);
  const decision = decideFormat(subjectOf(host, volume), { record, signatures, unknownData });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  const recordPath = memberRecordPath(recordDirectory, members.recordName(volume));
  if (decision.kind === "format") {
    await host.files.writeWhole("stage/record-formatting", recordPath, memberRecordText(volume, "formatting"));
    await members.noteFormatting(volume);
    await assertStillBare(host, volume, device);
    const made = await host.tools.run(
      "stage/format",
      `mkfs.${volume.fsType}`,
      formatArgs(volume, device),
      FORMAT_LIMIT_MS,
    );
    expectSuccess(made, `formatting ${device} of ${volume.handle}`);
  }
  if (decision.kind === "format" || record?.state === "formatting")
    await host.files.writeWhole("stage/record-formatted", recordPath, memberRecordText(volume, "formatted"));
  if (record?.state !== "mounted")
    await host.files.writeWhole("stage/record-mounted", recordPath, memberRecordText(volume, "mounted"));
}

/** mkfs.btrfs and mkfs.xfs look again by themselves; mkfs.ext4 only asks, and where nobody can answer it goes on. */
async function assertStillBare<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  device: string,
): Promise<void> {
  if (volume.fsType !== "ext4") return;
  const [signature] = await probe(host.tools, volume, device);
  if (signature === undefined) return;
  const what = `${signature.type} signature (UUID ${signature.uuid || "none"})`;
  throw new StorageError(
    "SignatureFound",
    `member ${host.members.nameOf(volume)} of ${volume.handle} has got a ${what} since it was found bare; it is left as it is`,
  );
}

function subjectOf<V extends OneMemberVolume>({ members }: BlockHost<V>, volume: V): FormatSubject {
  return { ...volume, member: members.nameOf(volume), remedy: members.remedy };
}

// Never with a flag that overrides a signature: should one have appeared after the probe, mkfs must fail too.
export function formatArgs(volume: FilesystemVolume, device: string): string[] {
  switch (volume.fsType) {
    case "btrfs":
      return ["-q", "-U", volume.fsid, device]; // Metadata stays DUP: other profiles have far higher floors for a shrink.
    case "ext4":
      return ["-q", "-m", "0", "-U", volume.fsid, device]; // No share kept back for root: that is for system disks.
    case "xfs":
      return ["-q", "-m", `uuid=${volume.fsid}`, device];
  }
}

async function mountFilesystem<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  device: string,
  mountPath: string,
): Promise<Mounted<V>> {
  assertNoLink(mountPath);
  await host.files.makeDirectory("stage/make-mount-point", mountPath);
  const args = ["-t", volume.fsType, "-o", "noatime", device, mountPath];
  const mounted = await host.tools.run("stage/mount", "mount", args, MOUNT_LIMIT_MS);
  expectSuccess(mounted, `mounting ${volume.fsType} ${volume.fsid} of ${volume.handle} from ${device} at ${mountPath}`);
  if (
    mountedAnywhere(device, volume.fsid)?.endsWith(volume.fsType === "btrfs" ? volume.fsid : basename(device)) === true
  )
    return { ...volume, device, mountPath };
  await host.tools.run("stage/unmount-stranger", "umount", [mountPath]);
  throw new StorageError(
    "WrongFilesystem",
    `mounting ${device} of ${volume.handle} brought up another device with fsid ${volume.fsid}: a copy of the member is ` +
      "attached on this node; detach it",
  );
}
