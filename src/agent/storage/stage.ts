// From nothing, or from wherever a crash left it, to a mounted filesystem: member file, loop device, at most one mkfs, mount.
// Each step looks at the world first, so that a second call continues or changes nothing.
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { basename } from "node:path";
import { decideFormat, type FormatSubject, recordOfAnother, type Signature } from "./format-decision.ts";
import { assertWritable, requireMember } from "./grow.ts";
import { deviceSizeBytes, findLoopDevices, findOrphanedLoopDevices, mountedAnywhere } from "./loop-device.ts";
import { growWithinRoom, type LoopHost, memberExtent, memberPath } from "./loop-host.ts";
import { type MemberRecord, memberRecordPath, memberRecordText, readMemberRecord } from "./member-record.ts";
import { assertNoLink } from "./mount-point.ts";
import { mountAt } from "./mount-table.ts";
import { wholeGrains } from "./size-grain.ts";
import { type LoopVolume, type MountedLoop, StorageError, type Volume } from "./storage.ts";
import { expectSuccess, type Tools } from "./tools.ts";
import { waitUntil } from "./wait-until.ts";

export const FORMAT_LIMIT_MS = 120_000;
export const MOUNT_LIMIT_MS = 120_000; // Log replay after a power cut included.
// A dead agent's mkfs or mount may still hold the device; whoever wants longer asks again.
const EXCLUSIVE_LIMIT_MS = 3_000;
const EXCLUSIVE_INTERVAL_MS = 50;

export async function stage(
  host: LoopHost,
  volume: LoopVolume,
  sizeBytes: number,
  mountPath: string,
): Promise<MountedLoop> {
  const mounted = await findOwn(host, volume, mountPath);
  if (mounted !== undefined) {
    assertWritable(mounted);
    requireMember(memberPath(host, volume), mounted);
    return mounted;
  }
  await makeMember(host, volume, sizeBytes);
  const device = await attach(host, volume);
  await waitForExclusive(volume, device);
  await formatOnce(host, volume, device);
  return mountFilesystem(host, volume, device, mountPath);
}

/** The same, where its member's record names no other volume: a layout that was edited by hand may name another's member. */
export async function findOwn(host: LoopHost, volume: LoopVolume, mountPath: string): Promise<MountedLoop | undefined> {
  const mounted = await findMounted(host, volume, mountPath);
  const stranger = mounted && recordOfAnother(subjectOf(volume), readableRecord(host, volume));
  if (stranger !== undefined) throw new StorageError(stranger.code, stranger.message);
  return mounted;
}

// One that cannot be read forbids a mkfs; of what is mounted already it says nothing.
function readableRecord(host: LoopHost, volume: LoopVolume): MemberRecord | undefined {
  try {
    return readMemberRecord(host.recordDirectory, volume.memberFile);
  } catch {
    return undefined;
  }
}

/** The volume when it is what is mounted at mountPath; throws WrongFilesystem when something else is. */
export async function findMounted(
  host: LoopHost,
  volume: LoopVolume,
  mountPath: string,
): Promise<MountedLoop | undefined> {
  const mount = mountAt(mountPath);
  if (mount === undefined) return undefined;
  const devices = await memberDevices(host, volume);
  const device = devices.find((candidate) => mount.source === candidate);
  if (device === undefined)
    throw new StorageError(
      "WrongFilesystem",
      `${mountPath} of ${volume.handle} has ${mount.fsType} from ${mount.source} mounted, not member ${volume.memberFile}; ` +
        "unmount it by hand",
    );
  return { ...volume, device, mountPath };
}

/** The loop devices over the volume's member, also when its file was deleted meanwhile. */
export async function memberDevices(host: LoopHost, volume: LoopVolume): Promise<string[]> {
  const path = memberPath(host, volume);
  if (memberExtent(path) !== undefined) return findLoopDevices(host.tools, path);
  return findOrphanedLoopDevices(volume.memberFile);
}

async function makeMember(host: LoopHost, volume: LoopVolume, sizeBytes: number): Promise<void> {
  const path = memberPath(host, volume);
  const extent = memberExtent(path);
  // Empty: the crash came between making it and giving it its size. Any other size is kept: only extend and shrink change it.
  if (extent !== undefined && extent.sizeBytes > 0) return;
  const record = readMemberRecord(host.recordDirectory, volume.memberFile);
  if (record !== undefined && record.state !== "formatting")
    throw new StorageError(
      "AlreadyFormatted",
      `member ${path} of ${volume.handle} is ${extent === undefined ? "gone" : "empty"} but was formatted before; bring the ` +
        "file back, or delete the claim if its data is not needed",
    );
  const wholeBytes = wholeGrains(sizeBytes);
  await growWithinRoom(host, volume, wholeBytes, async () => {
    await host.files.makeDirectory("stage/make-record-directory", host.recordDirectory);
    if (extent === undefined) await host.files.createNew("stage/create-member", path, 0o600);
    await host.files.truncate("stage/size-member", path, wholeBytes);
  });
}

/** Exactly one loop device, of the file's size. */
async function attach(host: LoopHost, volume: LoopVolume): Promise<string> {
  const path = memberPath(host, volume);
  const task = `attaching member ${path} of ${volume.handle}`;
  const [present, ...others] = await findLoopDevices(host.tools, path);
  if (others.length > 0)
    throw new StorageError(
      "DeviceBusy",
      `${task}: it is attached more than once (${present}, ${others.join(", ")}); detach what is not mounted by losetup -d`,
    );
  if (present === undefined) {
    const made = await host.tools.run("stage/attach", "losetup", ["--find", "--show", "--nooverlap", path]);
    return expectSuccess(made, task).trim();
  }
  if (deviceSizeBytes(present) !== memberExtent(path)?.sizeBytes)
    expectSuccess(await host.tools.run("stage/refresh-loop", "losetup", ["--set-capacity", present]), task);
  return present;
}

/** Throws DeviceBusy when somebody holds the device for longer than a dying command would. */
export async function waitForExclusive(volume: Volume, device: string): Promise<void> {
  if (await waitUntil(() => opensExclusively(device), EXCLUSIVE_LIMIT_MS, EXCLUSIVE_INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is in use (${mountedAnywhere(device) ?? "not mounted"}); unmount it wherever it is ` +
      `mounted, or end what holds it (fuser -v ${device})`,
  );
}

async function formatOnce(host: LoopHost, volume: LoopVolume, device: string): Promise<void> {
  const record = readMemberRecord(host.recordDirectory, volume.memberFile);
  const signatures = await probe(host.tools, volume, device);
  const allocatedBytes = memberExtent(memberPath(host, volume))?.allocatedBytes ?? 0;
  const decision = decideFormat(subjectOf(volume), { record, signatures, allocatedBytes });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  const recordPath = memberRecordPath(host.recordDirectory, volume.memberFile);
  if (decision.kind === "format") {
    await host.files.writeWhole("stage/record-formatting", recordPath, memberRecordText(volume, "formatting"));
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

function subjectOf(volume: LoopVolume): FormatSubject {
  return { ...volume, member: volume.memberFile, remedy: "Move the file away if its data is not needed" };
}

// Never with a flag that overrides a signature: should one have appeared after the probe, mkfs must fail too.
export function formatArgs(volume: Volume, device: string): string[] {
  switch (volume.fsType) {
    case "btrfs":
      return ["-q", "-U", volume.fsid, device]; // Metadata stays DUP: other profiles have far higher floors for a shrink.
    case "ext4":
      return ["-q", "-m", "0", "-U", volume.fsid, device]; // No share kept back for root: that is for system disks.
    case "xfs":
      return ["-q", "-m", `uuid=${volume.fsid}`, device];
  }
}

// wipefs without --all only lists. Unlike blkid it tells "nothing there" from "could not read".
export async function probe(tools: Tools, volume: Volume, device: string): Promise<Signature[]> {
  const listed = await tools.query("wipefs", ["--noheadings", "--output", "TYPE,UUID", device]);
  return expectSuccess(listed, `looking for signatures on ${device} of ${volume.handle}`)
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [type = "", uuid = ""] = line.trim().split(/\s+/);
      return { type, uuid: uuid.toLowerCase() };
    });
}

async function mountFilesystem(
  host: LoopHost,
  volume: LoopVolume,
  device: string,
  mountPath: string,
): Promise<MountedLoop> {
  assertNoLink(mountPath);
  await host.files.makeDirectory("stage/make-mount-point", mountPath);
  const args = ["-t", volume.fsType, "-o", "noatime", device, mountPath];
  const mounted = await host.tools.run("stage/mount", "mount", args, MOUNT_LIMIT_MS);
  expectSuccess(mounted, `mounting ${volume.fsType} ${volume.fsid} of ${volume.handle} from ${device} at ${mountPath}`);
  if (mountedAnywhere(device)?.endsWith(volume.fsType === "btrfs" ? volume.fsid : basename(device)) === true)
    return { ...volume, device, mountPath };
  await host.tools.run("stage/unmount-stranger", "umount", [mountPath]);
  throw new StorageError(
    "WrongFilesystem",
    `mounting ${device} of ${volume.handle} brought up another device with fsid ${volume.fsid}: a copy of the member is ` +
      "attached on this node; detach it",
  );
}

// Fails while the kernel or another program holds the device for itself: mounted anywhere, or under mkfs.
async function opensExclusively(device: string): Promise<boolean> {
  try {
    await (await open(device, constants.O_RDONLY | constants.O_EXCL)).close();
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EBUSY") return false;
    throw error;
  }
}
