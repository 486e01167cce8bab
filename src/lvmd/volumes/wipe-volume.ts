// Removes a volume so that no later one shows what was on it: zeros first, then LVM. Of thin volumes their pool sees to that, by zeroing
// what it hands out. A crash in between leaves the volume, wiped in part and marked so: the same call begins again.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "../../csi/refusal.ts";
import { readDeviceNode } from "../device-node.ts";
import { activationArguments } from "../lvm/arguments.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { letPoolZero, zeroes } from "../pools/ready-pool.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { refuseOrigin, removeInTurn } from "./remove-volume.ts";
import { impairment } from "./sizes.ts";
import { classOf, type FoundVolume, freshVolumeOf, type VolumeHost, volumePath } from "./volume-host.ts";
import { markWipe } from "./wipe-mark.ts";
import { zeroAll } from "./zero-volume.ts";

const ATTEMPTS = 3;

/** Undefined: it is gone, or there was none. */
export async function wipeAndRemove(host: VolumeHost, className: string, name: string): Promise<Refusal | undefined> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name);
  if (refusal !== undefined) return refusal;
  // A wipe takes its time: the group's turn is for its beginning and its end.
  return host.lanes.run(`wipe of ${deviceClass.volumeGroup}/${name}`, async () => {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      // In the group's turn: what was asked for before, and waits for it still, is made by then.
      const look = (): Promise<FoundVolume | Refusal> => freshVolumeOf(host, deviceClass, name);
      const found = await host.lanes.run(deviceClass.volumeGroup, look);
      if (found instanceof Refusal) return found.code === "NOT_FOUND" ? undefined : found;
      const problem = refuseRemoval(found);
      if (problem !== undefined) return problem;
      const wiped = found.state.thin === undefined ? await wipe(host, found) : await letItsPoolZero(host, found);
      if (wiped instanceof Refusal) return wiped;
      const removed = await removeUnlessGrown(host, deviceClass, name, wiped);
      if (removed !== "Grown") return removed;
    }
    return new Refusal("ABORTED", `volume ${name} grew while it was wiped, ${ATTEMPTS} times`);
  });
}

/** lvs(8): the sixth character of lv_attr is "o" for an open device. */
function refuseRemoval(found: FoundVolume): Refusal | undefined {
  const { state, volume } = found;
  const broken = impairment(state);
  if (broken !== undefined) return new Refusal("FAILED_PRECONDITION", broken);
  return volume.attr.charAt(5) === "o" ? inUse(`${state.group.name}/${volume.name}`) : refuseOrigin(found);
}

/**
 * Zeros written over a thin volume would not do: dm-thin writes over what was ever shared with a snapshot in another place, also when that
 * is gone, and hands out the former one as it is. So the pool must zero. The bytes that no other volume will show.
 */
async function letItsPoolZero(host: VolumeHost, { state: { group, thin }, volume }: FoundVolume): Promise<number> {
  if (thin !== undefined && !zeroes(thin.pool))
    await host.lanes.run(group.name, () => letPoolZero(host, group.name, thin.pool));
  return volume.sizeBytes;
}

/** The bytes that were wiped. */
async function wipe(host: VolumeHost, { state: { group }, volume }: FoundVolume): Promise<number | Refusal> {
  const name = `${group.name}/${volume.name}`;
  const path = volume.path || volumePath(group.name, volume.name);
  const activation = activationArguments(group.name, volume.name);
  if (volume.device === undefined)
    await host.lanes.run(group.name, () => host.lvm.run("lvmd-wipe/activate", "lvchange", activation));
  const held = await holdAlone(path);
  if (held === undefined) return inUse(name);
  try {
    await markWipe(host, group.name, volume); // nothing of it is touched before, nor after it was found in use
    if (isReadOnly(volume))
      await host.lanes.run(group.name, () => host.lvm.run("lvmd-wipe/make-writable", "lvchange", ["-p", "rw", name]));
    const sizeBytes = (await readDeviceNode(path))?.sizeBytes ?? volume.sizeBytes;
    // Many at once would share the disk until none ends a piece in its time.
    await host.lanes.run(`zeroing in ${group.name}`, () => zeroAll(host, path, sizeBytes));
    await held.sync();
    return sizeBytes;
  } finally {
    await held.close();
  }
}

/** lvs(8): the second character of lv_attr, "r" where its metadata say so. */
function isReadOnly({ attr }: ReportedVolume): boolean {
  return attr.charAt(1) === "r";
}

/** Undefined: somebody else holds it. As long as it is held nobody mounts it. */
async function holdAlone(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_EXCL);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EBUSY") return undefined;
    throw new LvmError("Failed", `${path} cannot be opened to wipe it: ${message}`, error);
  }
}

function removeUnlessGrown(
  host: VolumeHost,
  deviceClass: DeviceClass,
  name: string,
  wipedBytes: number,
): Promise<Refusal | "Grown" | undefined> {
  return host.lanes.run(deviceClass.volumeGroup, async () => {
    const found = await freshVolumeOf(host, deviceClass, name);
    if (found instanceof Refusal) return found.code === "NOT_FOUND" ? undefined : found;
    return found.volume.sizeBytes > wipedBytes ? "Grown" : removeInTurn(host, found);
  });
}

function inUse(name: string): Refusal {
  return new Refusal("FAILED_PRECONDITION", `volume ${name} is in use: nothing on it is touched`);
}
