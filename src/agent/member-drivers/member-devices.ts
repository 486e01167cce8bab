// A member's block device on this node: brought by the member's driver, as a pod with the claim would get it, to a path that is
// ours alone, and given back to the driver. It knows nothing of filesystems; what is published is seen in the paths themselves.
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  NodeServiceCapability_RPC_Type as Rpc,
  type VolumeCapability,
} from "../../gen/csi/v1/csi.ts";
import type { Effects } from "../../process/effects.ts";
import type { FilePort } from "../../process/file-port.ts";
import { mountsUnder } from "../storage/filesystem/mount-table.ts";
import { StorageError } from "../storage/storage.ts";
import { createVolumeQueue } from "../storage/volume-queue.ts";
import { type BlockDevice, blockDeviceAt, hasVanished, isBlockDevice } from "./block-device.ts";
import type { MemberSecrets } from "./member-secrets.ts";
import { type NodeCalls, withNodeCalls } from "./node-calls.ts";
import type { RegisteredDrivers } from "./registered-drivers.ts";
import { type AttachedMember, describeAwaited, isAttached, type SpanMember } from "./span-member.ts";

/**
 * All are idempotent, and what calls a driver runs one at a time for each member. Throw StorageError; a signal that aborts ends only the
 * wait for the driver.
 */
export interface MemberDevices {
  /** The device, if it is published already. Throws MembersMissing when its disk has vanished. */
  find(handle: string, name: string): BlockDevice | undefined;
  /** Whether it is published, and its disk is not there any more. */
  hasVanished(handle: string, name: string): boolean;
  /** Has the driver stage and publish it, also where it has before. Throws WaitingForMember while it is not attached here. */
  publish(handle: string, member: SpanMember, signal?: AbortSignal): Promise<BlockDevice>;
  /** Has the driver make the published device as large as its volume has become. */
  expand(handle: string, member: SpanMember, sizeBytes: number): Promise<void>;
  /** Gives it back to the driver; what is left of it here is nothing. */
  unpublish(handle: string, member: SpanMember, signal?: AbortSignal): Promise<void>;
}

export interface MemberDevicesParts {
  /** Kubelet's directory for our driver: plugins/span.tidemark.dev. */
  readonly directory: string;
  readonly drivers: RegisteredDrivers;
  readonly secrets: MemberSecrets;
  readonly effects: Effects;
  readonly files: FilePort;
}

interface Paths {
  readonly directory: string;
  readonly staging: string;
  readonly device: string;
}

export function createMemberDevices(parts: MemberDevicesParts): MemberDevices {
  const pathsOf = (handle: string, name: string): Paths => {
    const directory = join(parts.directory, handle, name);
    return { directory, staging: join(directory, "staging"), device: join(directory, "device") };
  };
  // A call that nobody waits for any more goes on: what comes next about the member must not overtake it.
  const turns = createVolumeQueue();
  const inTurn = <T>(handle: string, { name }: SpanMember, call: () => Promise<T>): Promise<T> =>
    turns.run(`${handle}/${name}`, call);
  const devices: MemberDevices = {
    find: (handle, name) => blockDeviceAt(pathsOf(handle, name).device),
    hasVanished: (handle, name) => hasVanished(pathsOf(handle, name).device),
    publish: async (handle, member, signal) => {
      const paths = pathsOf(handle, member.name);
      const attached = requireAttached(handle, member);
      // Also where a device is there already: which volume's it is by now, after a reboot, only its driver knows.
      await withNodeCalls(parts, attached.volume.driver, (calls) => publish(parts, calls, attached, paths), signal);
      const device = blockDeviceAt(paths.device);
      if (device !== undefined) return device;
      throw new StorageError(
        "MemberDriverFailed",
        `the CSI driver ${attached.volume.driver} has published member ${member.name} of ${handle}, but at ${paths.device} ` +
          "is no block device; see whether its class supports volumeMode: Block",
      );
    },
    expand: async (handle, member, sizeBytes) => {
      const paths = pathsOf(handle, member.name);
      const attached = requireAttached(handle, member);
      await withNodeCalls(parts, attached.volume.driver, (calls) => expand(parts, calls, attached, paths, sizeBytes));
    },
    unpublish: async (handle, member, signal) => {
      const paths = pathsOf(handle, member.name);
      if (!existsSync(paths.directory)) return;
      if (member.volume !== undefined) {
        const { driver, volumeHandle } = member.volume;
        await withNodeCalls(parts, driver, (calls) => unpublish(calls, volumeHandle, paths), signal);
      }
      assertGone(handle, member, paths);
      await parts.files.remove("span/remove-member-directory", paths.directory);
      // Others of the volume may be at work on theirs.
      await parts.files.removeEmpty("span/remove-member-directory", join(parts.directory, handle));
    },
  };
  return {
    find: devices.find,
    hasVanished: devices.hasVanished,
    publish: (handle, member, signal) => inTurn(handle, member, () => devices.publish(handle, member, signal)),
    expand: (handle, member, sizeBytes) => inTurn(handle, member, () => devices.expand(handle, member, sizeBytes)),
    unpublish: (handle, member, signal) => inTurn(handle, member, () => devices.unpublish(handle, member, signal)),
  };
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
    `member ${name} of ${handle} is still at ${left.join(", ")} though ${volume?.driver ?? "nobody"} has let go of it; unmount it by hand`,
  );
}
