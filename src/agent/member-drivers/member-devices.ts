// A member's block device on this node: brought by the member's driver, as a pod with the claim would get it, to a path that is
// ours alone, and given back to the driver. It knows nothing of filesystems; what is published is seen in the paths themselves. A directory
// next to the device says in which boot it was, and one in that which disk: a device node outlives both, and leads to another disk by then.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  NodeServiceCapability_RPC_Type as Rpc,
  type VolumeCapability,
} from "../../contracts/gen/csi/v1/csi.ts";
import { createKeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Effects } from "../../platform/process/effects/effects.ts";
import type { FilePort } from "../../platform/process/effects/file-port.ts";
import {
  type BlockDevice,
  blockDeviceAt,
  hasVanished,
  isBlockDevice,
  mountsUnder,
} from "../storage/filesystem/devices-and-mounts.ts";
import type { MemberDevices } from "../storage/span/span-host.ts";
import { StorageError } from "../storage/storage-error.ts";
import { type MemberSecrets, type NodeCalls, type RegisteredDrivers, withNodeCalls } from "./node-calls.ts";
import { type AttachedMember, describeAwaited, isAttached, type SpanMember } from "./span-member.ts";

export interface MemberDevicesParts {
  /** Kubelet's directory for our driver: plugins/span.tidemark.dev. */
  readonly directory: string;
  readonly drivers: RegisteredDrivers;
  readonly secrets: MemberSecrets;
  readonly bootID: string;
  readonly effects: Effects;
  readonly files: FilePort;
}

interface Paths {
  readonly directory: string;
  readonly staging: string;
  readonly device: string;
  /** Is there once a driver of this boot was asked for the device. */
  readonly boot: string;
}

const BOOT_PREFIX = "boot-";
/** In the boot's directory: the kernel counts disks from the start in each boot. */
const DISK_PREFIX = "disk-";

export function createMemberDevices(parts: MemberDevicesParts): MemberDevices {
  // A call goes on after its caller has stopped waiting. The next call about the same member must not overtake it.
  const turns = createKeyedQueue();
  const inTurn = <T>(handle: string, name: string, call: (paths: Paths) => Promise<T>): Promise<T> =>
    turns.run(`${handle}/${name}`, () => call(pathsOf(parts, handle, name)));
  return {
    find: (handle, name) => findDevice(pathsOf(parts, handle, name)),
    hasVanished: (handle, name) => {
      const paths = pathsOf(parts, handle, name);
      if (isOfFormerBoot(paths)) return false;
      return hasVanished(paths.device) || diskAt(paths) === "Another";
    },
    isAsBrought: (handle, name) => {
      const paths = pathsOf(parts, handle, name);
      return !isOfFormerBoot(paths) && !hasVanished(paths.device) && diskAt(paths) === "AsBrought";
    },
    note: (handle, name) =>
      inTurn(handle, name, async (paths) => {
        const device = isOfFormerBoot(paths) ? undefined : blockDeviceAt(paths.device);
        if (device !== undefined && diskOf(paths, device) === "Unknown") await noteDisk(parts, paths, device);
      }),
    publish: (handle, member, signal) =>
      inTurn(handle, member.name, (paths) => bringDevice(parts, handle, member, paths, signal)),
    expand: (handle, member, sizeBytes) =>
      inTurn(handle, member.name, async (paths) => {
        const attached = requireAttached(handle, member);
        await withNodeCalls(parts, attached.volume.driver, (calls) => expand(parts, calls, attached, paths, sizeBytes));
      }),
    unpublish: (handle, member, signal) =>
      inTurn(handle, member.name, (paths) => giveBack(parts, handle, member, paths, signal)),
  };
}

function pathsOf({ directory: ofDriver, bootID }: MemberDevicesParts, handle: string, name: string): Paths {
  const directory = join(ofDriver, handle, name);
  const boot = join(directory, `${BOOT_PREFIX}${bootID}`);
  return { directory, staging: join(directory, "staging"), device: join(directory, "device"), boot };
}

function findDevice(paths: Paths): BlockDevice | undefined {
  if (isOfFormerBoot(paths)) return undefined;
  const device = blockDeviceAt(paths.device);
  if (device === undefined || diskOf(paths, device) !== "Another") return device;
  throw new StorageError(
    "MembersMissing",
    `${paths.device} leads to another disk by now, ${device.path}: the member's has vanished from this node; ` +
      "see dmesg, and bring it back",
  );
}

async function bringDevice(
  parts: MemberDevicesParts,
  handle: string,
  member: SpanMember,
  paths: Paths,
  signal: AbortSignal | undefined,
): Promise<BlockDevice> {
  const attached = requireAttached(handle, member);
  // A driver may leave a device node that is there as it is.
  if (isOfFormerBoot(paths)) await giveBack(parts, handle, member, paths, signal);
  // Also where a device is there already: which volume's it is by now, after a reboot, only its driver knows.
  await withNodeCalls(parts, attached.volume.driver, (calls) => publish(parts, calls, attached, paths), signal);
  const device = blockDeviceAt(paths.device);
  if (device === undefined)
    throw new StorageError(
      "MemberDriverFailed",
      `check that the class of member ${member.name} supports volumeMode Block: driver ${attached.volume.driver} published no block device`,
    );
  await noteDisk(parts, paths, device);
  return device;
}

async function giveBack(
  parts: MemberDevicesParts,
  handle: string,
  member: SpanMember,
  paths: Paths,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!existsSync(paths.directory)) return;
  if (member.volume !== undefined) {
    const { driver, volumeHandle } = member.volume;
    await withNodeCalls(parts, driver, (calls) => unpublish(calls, volumeHandle, paths), signal);
  }
  assertGone(handle, member, paths);
  await parts.files.remove("span/remove-member-directory", paths.directory);
  // Others of the volume may be at work on theirs.
  await parts.files.removeEmpty("span/remove-member-directory", join(parts.directory, handle));
}

/** Without any such directory it was published by an agent of an earlier version, and counts. */
function isOfFormerBoot({ directory, boot }: Paths): boolean {
  if (existsSync(boot) || !existsSync(directory)) return false;
  return readdirSync(directory).some((entry) => entry.startsWith(BOOT_PREFIX));
}

type Disk = "AsBrought" | "Another" | "Unknown";

/** Unknown: the kernel has no numbers for disks (before 5.15), or an agent of an earlier version has published it. */
function diskOf({ boot }: Paths, { diskSequence }: BlockDevice): Disk {
  const noted = notedDisks(boot);
  if (diskSequence === undefined || noted.length === 0) return "Unknown";
  return noted.includes(`${DISK_PREFIX}${diskSequence}`) ? "AsBrought" : "Another";
}

/** The disk that the path leads to, which is there. */
function diskAt(paths: Paths): Disk {
  const device = blockDeviceAt(paths.device);
  return device === undefined ? "Unknown" : diskOf(paths, device);
}

function notedDisks(boot: string): string[] {
  return existsSync(boot) ? readdirSync(boot) : [];
}

/** A driver may bring another disk without releasing the one before; the former disk then no longer counts. */
async function noteDisk({ files }: MemberDevicesParts, { boot }: Paths, { diskSequence }: BlockDevice): Promise<void> {
  if (diskSequence === undefined) return;
  const disk = `${DISK_PREFIX}${diskSequence}`;
  await files.makeDirectory("span/make-member-directory", join(boot, disk));
  for (const other of notedDisks(boot).filter((entry) => entry !== disk))
    await files.remove("span/remove-member-directory", join(boot, other));
}

async function publish(
  { files, secrets }: MemberDevicesParts,
  calls: NodeCalls,
  { volume, attachment }: AttachedMember,
  paths: Paths,
): Promise<void> {
  const volumeCapability = capabilityFor(calls);
  const request = {
    volumeId: volume.volumeHandle,
    publishContext: attachment.context,
    volumeContext: volume.volumeAttributes,
    volumeCapability,
  };
  await files.makeDirectory("span/make-member-directory", paths.staging);
  await files.makeDirectory("span/make-member-directory", paths.boot);
  if (calls.capabilities.has(Rpc.STAGE_UNSTAGE_VOLUME))
    await calls.stage({
      ...request,
      stagingTargetPath: paths.staging,
      secrets: await secrets.read(volume.nodeStageSecretRef),
    });
  await calls.publish({
    ...request,
    stagingTargetPath: paths.staging,
    targetPath: paths.device,
    readonly: false,
    secrets: await secrets.read(volume.nodePublishSecretRef),
  });
}

async function expand(
  { secrets }: MemberDevicesParts,
  calls: NodeCalls,
  { volume }: AttachedMember,
  paths: Paths,
  sizeBytes: number,
): Promise<void> {
  // A driver without it makes the device larger by itself.
  if (!calls.capabilities.has(Rpc.EXPAND_VOLUME)) return;
  await calls.expand({
    volumeId: volume.volumeHandle,
    volumePath: paths.device,
    stagingTargetPath: paths.staging,
    capacityRange: { requiredBytes: sizeBytes, limitBytes: 0 },
    volumeCapability: capabilityFor(calls),
    secrets: await secrets.read(volume.nodeExpandSecretRef),
  });
}

async function unpublish(calls: NodeCalls, volumeHandle: string, paths: Paths): Promise<void> {
  await calls.unpublish(volumeHandle, paths.device);
  if (calls.capabilities.has(Rpc.STAGE_UNSTAGE_VOLUME)) await calls.unstage(volumeHandle, paths.staging);
}

/** As kubelet reads ReadWriteOnce. */
function capabilityFor({ capabilities }: NodeCalls): VolumeCapability {
  const mode = capabilities.has(Rpc.SINGLE_NODE_MULTI_WRITER) ? Mode.SINGLE_NODE_MULTI_WRITER : Mode.SINGLE_NODE_WRITER;
  return { accessType: { $case: "block", value: {} }, accessMode: { mode } };
}

function requireAttached(handle: string, member: SpanMember): AttachedMember {
  if (isAttached(member)) return member;
  throw new StorageError(
    "WaitingForMember",
    `${describeAwaited(member)} of ${handle}; see the VolumeAttachment and claim`,
  );
}

/** The directory is removed with all that is in it: never with a device or a mount. */
function assertGone(handle: string, { name, volume }: SpanMember, paths: Paths): void {
  const left = mountsUnder(paths.directory).map(({ mountPath }) => mountPath);
  if (isBlockDevice(paths.device)) left.push(paths.device);
  if (left.length === 0) return;
  throw new StorageError(
    "DeviceBusy",
    `member ${name} of ${handle} is still at ${left.join(", ")} though ${volume?.driver ?? "no driver"} has released it; unmount it by hand`,
  );
}
