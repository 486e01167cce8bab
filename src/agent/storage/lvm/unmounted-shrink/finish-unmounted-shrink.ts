// Ends a shrink of an unmounted filesystem that was interrupted, one way or the other, before anybody mounts it: taken back by its snapshot,
// or carried to its end where the smaller filesystem was found to be whole. Every step is one that a second call does again.
import { GUARD_TAG } from "../../../../api/names.ts";
import { waitForExclusive } from "../../block/probe-device.ts";
import { readExt4State } from "../../filesystem/ext4-superblock.ts";
import { mountedAnywhere } from "../../loop/loop-device.ts";
import { type LvmMember, type LvmVolume, StorageError } from "../../storage.ts";
import { UNMOUNTED_SHRINK_TAG } from "../content-tags.ts";
import { deviceOf, findVolume } from "../find-logical-volume.ts";
import { waitForTools } from "../leftover-tools.ts";
import { askLvmd, type LvmHost, nameOf } from "../lvm-host.ts";
import { reduce, settleReduction } from "../reduce.ts";
import { checkFilesystem } from "./check-filesystem.ts";
import { type Finish, finishOf } from "./unmounted-shrink-decision.ts";
import {
  readUnmountedShrink,
  type UnmountedShrinkRecord,
  unmountedShrinkPath,
  unmountedShrinkText,
} from "./unmounted-shrink-record.ts";

/** Nothing where none is under way. Throws ShrinkInDoubt where nobody may mount it, and WaitingForMember where lvmd cannot tell. */
export async function finishUnmountedShrink(host: LvmHost, volume: LvmVolume): Promise<void> {
  if (volume.fsType !== "ext4") return;
  const record = readUnmountedShrink(host, volume);
  const finish = await decideNow(host, volume, record);
  if (finish.act === "Nothing") return;
  if (finish.act === "Doubt") throw inDoubt(host, volume, finish.message);
  if (finish.act === "Wait")
    throw new StorageError("WaitingForMember", `${nameOf(volume)} of ${volume.handle}: ${finish.message}`);
  if (record === undefined) throw new Error(`bug: ${finish.act} of ${volume.handle} without a record`);
  switch (finish.act) {
    case "Forget":
      return forget(host, volume, record);
    case "RollBack":
      return rollBack(host, volume, record);
    case "Complete":
      return complete(host, volume, record);
  }
}

/** The same where this node has a record; lvmd is not needed to tell that there is none. */
export async function finishRecordedShrink(host: LvmHost, volume: LvmVolume): Promise<void> {
  if (readUnmountedShrink(host, volume) !== undefined) await finishUnmountedShrink(host, volume);
}

/** Of a volume that is about to be removed with its data. */
export async function forgetUnmountedShrink(host: LvmHost, volume: LvmMember): Promise<void> {
  const record = readUnmountedShrink(host, volume);
  if (record === undefined) return;
  await askLvmd(volume, host.lvmd.wipeAndRemove(volume.deviceClass, record.snapshot));
  await host.files.remove("unmounted-shrink/forget", unmountedShrinkPath(host, volume));
}

async function decideNow(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord | undefined): Promise<Finish> {
  const found = await findToLookAt(host, volume, record);
  const device = found && deviceOf(found);
  return finishOf({
    record,
    tagged: found?.tags.includes(UNMOUNTED_SHRINK_TAG) === true,
    mounted: device !== undefined && mountedAnywhere(device) !== undefined,
    filesystem: device === undefined ? "Inactive" : ownFilesystem(volume, device),
  });
}

/** After a reboot it may not be active, and what stands on it is to be looked at. What is being rolled back lvmd activates when that is done. */
async function findToLookAt(
  host: LvmHost,
  volume: LvmVolume,
  record: UnmountedShrinkRecord | undefined,
): ReturnType<typeof findVolume> {
  const found = await findVolume(host, volume);
  if (found === undefined || deviceOf(found) !== undefined) return found;
  if (record?.phase !== "Guarded" && record?.phase !== "Proven") return found;
  await askLvmd(volume, host.lvmd.activate(volume.deviceClass, volume.volumeID));
  return findVolume(host, volume);
}

function ownFilesystem({ fsid }: LvmVolume, device: string): ReturnType<typeof readExt4State> {
  const filesystem = readExt4State(device);
  return filesystem?.fsid === fsid ? filesystem : undefined;
}

async function forget(host: LvmHost, volume: LvmVolume, { snapshot }: UnmountedShrinkRecord): Promise<void> {
  const { deviceClass, volumeID } = volume;
  await askLvmd(volume, host.lvmd.wipeAndRemove(deviceClass, snapshot));
  await askLvmd(volume, host.lvmd.removeTag(deviceClass, volumeID, UNMOUNTED_SHRINK_TAG));
  await host.files.remove("unmounted-shrink/forget", unmountedShrinkPath(host, volume));
}

/** The record first: a volume that is let go of on the way cannot be looked at, and nobody has to. */
async function rollBack(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord): Promise<void> {
  const { lvmd, files, tools } = host;
  const { deviceClass, volumeID } = volume;
  const before = await activeDevice(host, volume);
  if (before !== undefined) {
    await waitForTools(volume, before);
    await waitForExclusive(volume, before);
  }
  const rollingBack = unmountedShrinkText({ ...record, phase: "RollingBack" });
  await files.writeWhole("unmounted-shrink/record-rolling-back", unmountedShrinkPath(host, volume), rollingBack);
  await askLvmd(volume, lvmd.mergeSnapshot(deviceClass, volumeID, record.snapshot));
  const device = await activeDevice(host, volume);
  if (device === undefined)
    throw new StorageError(
      "WaitingForMember",
      `${nameOf(volume)} of ${volume.handle} was rolled back, and is not active`,
    );
  const filesystem = ownFilesystem(volume, device);
  if (filesystem?.sizeBytes !== record.filesystemBytes)
    throw inDoubt(
      host,
      volume,
      `a shrink of it was rolled back, and its superblock says ${filesystem?.sizeBytes} bytes, and not ${record.filesystemBytes}`,
    );
  const complaint = await checkFilesystem(tools, device);
  if (complaint !== undefined)
    throw inDoubt(host, volume, `a shrink of it was rolled back, and e2fsck finds fault: ${complaint}`);
  await askLvmd(volume, lvmd.removeTag(deviceClass, volumeID, `${GUARD_TAG}=${volumeID}`));
  // It is as it was at the beginning. A record whose removal a power cut takes back must not speak of a way back after the next mount.
  const rolledBack = unmountedShrinkText({ ...record, phase: "Begun" });
  await files.writeWhole("unmounted-shrink/record-rolled-back", unmountedShrinkPath(host, volume), rolledBack);
  await forget(host, volume, record);
}

/** The volume may stay as it is: what counts is that nothing cuts it later. */
async function complete(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord): Promise<void> {
  await settleReduction(host, volume);
  const found = await findVolume(host, volume);
  const device = found && deviceOf(found);
  if (device !== undefined && found?.sizeBytes === record.fromBytes)
    try {
      await reduce(host, { ...volume, device }, record.fromBytes, record.toBytes);
    } catch (error) {
      if (!(error instanceof StorageError) || error.code === "WaitingForMember") throw error;
      await settleReduction(host, volume);
    }
  await forget(host, volume, record);
}

async function activeDevice(host: LvmHost, volume: LvmVolume): Promise<string | undefined> {
  const found = await findVolume(host, volume);
  return found && deviceOf(found);
}

function inDoubt(host: LvmHost, volume: LvmVolume, why: string): StorageError {
  return new StorageError(
    "ShrinkInDoubt",
    `${nameOf(volume)} of ${volume.handle} is not mounted, since nobody can tell which of its contents is the last one: ${why}. Compare the ` +
      `volume with its snapshot (lvs -o +tags: ${GUARD_TAG}=${volume.volumeID}), keep the right one by hand (lvconvert --merge, or lvremove), ` +
      `and take away the record ${unmountedShrinkPath(host, volume)} on its node and the volume's tag ${UNMOUNTED_SHRINK_TAG}`,
  );
}
