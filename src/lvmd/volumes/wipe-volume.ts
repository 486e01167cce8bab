// Removes a volume so that no later one shows what was on it: zeros first, then LVM. Of thin volumes the pool sees to that, where it
// zeroes what it hands out. A crash in between leaves the volume, wiped in part: the same call begins again.
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "../../csi/refusal.ts";
import { readDeviceNode } from "../device-node.ts";
import { LvmError, toolOutput } from "../lvm/lvm-error.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { refuseOrigin, removeInTurn } from "./remove-volume.ts";
import { impairment } from "./sizes.ts";
import { classOf, type FoundVolume, freshVolumeOf, type VolumeHost, volumePath } from "./volume-host.ts";

const BLKDISCARD = "/usr/sbin/blkdiscard";
/** Written out within the time limit of one command by a disk of 10 MB/s. */
const PIECE_BYTES = 512 * 2 ** 20;
const PIECE_LIMIT_MS = 60_000;
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
      const found = await freshVolumeOf(host, deviceClass, name);
      if (found instanceof Refusal) return found.code === "NOT_FOUND" ? undefined : found;
      const problem = refuseRemoval(found);
      if (problem !== undefined) return problem;
      const wiped = zeroesByItself(found) ? found.volume.sizeBytes : await wipe(host, found);
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

/** The eighth character of a pool's lv_attr is "z" where it zeroes what it hands out. */
function zeroesByItself({ state: { thin } }: FoundVolume): boolean {
  return thin?.pool.attr.charAt(7) === "z";
}

/** The bytes that were wiped. */
async function wipe(host: VolumeHost, { state, volume }: FoundVolume): Promise<number | Refusal> {
  const { group, thin } = state;
  const path = volume.path || volumePath(group.name, volume.name);
  if (volume.device === undefined)
    await host.lanes.run(group.name, () =>
      host.lvm.run("lvmd-wipe/activate", "lvchange", ["-a", "y", `${group.name}/${volume.name}`]),
    );
  const held = await holdAlone(path);
  if (held === undefined) return inUse(`${group.name}/${volume.name}`);
  try {
    const sizeBytes = (await readDeviceNode(path))?.sizeBytes ?? volume.sizeBytes;
    // Zeros written everywhere would take the whole size of a thin volume from its pool.
    if (thin === undefined) await zeroAll(host, path, sizeBytes);
    else await host.files.zeroWritten("lvmd-wipe/zero-written", path, sizeBytes);
    await held.sync();
    return sizeBytes;
  } finally {
    await held.close();
  }
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

/** The kernel lets the device do it where it can, and writes zeros where it cannot. */
async function zeroAll({ commands }: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, sizeBytes - offset);
    // It is held already: --force lets blkdiscard open it all the same.
    const args = ["--force", "--zeroout", "--offset", String(offset), "--length", String(length), path];
    const wiping = commands.run("lvmd-wipe/zero", BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS });
    await toolOutput(`blkdiscard of ${path}`, wiping);
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
