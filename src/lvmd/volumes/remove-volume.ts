// Takes a volume away, with what is on it. An open one is never taken: LVM refuses.

import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { Refusal } from "../../contracts/csi/refusal.ts";
import { WIPE_BEGUN_TAG } from "../../contracts/names.ts";
import type { CommandOptions, CommandResult } from "../../platform/process/effects/command-port.ts";
import { columnsOf, takenBytes } from "../classes/class-state.ts";
import { readDeviceNode } from "../devices.ts";
import { activationArguments, refuseVolumeName, tagArguments } from "../lvm/lvm.ts";
import { LvmError, refusalOrThrow, toolOutput } from "../lvm/lvm-error.ts";
import { type ReportedVolume, zeroes } from "../lvm/report.ts";
import { letPoolZero } from "../pools/thin-pools.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { impairment } from "./sizes.ts";
import { classOf, type FoundVolume, freshVolumeOf, type VolumeHost, volumeOf, volumePath } from "./volume-host.ts";

/** Throws a Refusal, NOT_FOUND, when there is none. */
export async function removeVolume(host: VolumeHost, className: string, name: string): Promise<void> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  return host.queues.run(deviceClass.volumeGroup, async () => {
    const found = await volumeOf(host, deviceClass, name);
    refuseOrigin(found);
    await removeInTurn(host, found);
  });
}

/** lvs(8): the first character of lv_attr is "o" or "O" for a volume that has thick snapshots. */
function refuseOrigin({ state, volume }: FoundVolume): void {
  if (!/^[oO]/.test(volume.attr)) return;
  throw new Refusal(
    "FAILED_PRECONDITION",
    `volume ${state.group.name}/${volume.name} has snapshots that would go with it: remove them first`,
  );
}

/** In the group's turn. */
async function removeInTurn(host: VolumeHost, { state, volume }: FoundVolume): Promise<void> {
  const { deviceClass, group, thin } = state;
  await host.lvm.run("lvmd-remove/lvremove", "lvremove", ["-f", `${group.name}/${volume.name}`]);
  const freedBytes = thin === undefined ? takenBytes(volume.sizeBytes, columnsOf(deviceClass, undefined)) : 0;
  host.reports.note({ kind: "Removed", group: group.name, name: volume.name, freedBytes });
}

// A volume whose wipe has started carries a tag, which lives and goes with it. Such a volume is not whole: it can only be removed.

/** Written when it returns. */
async function markWipe(host: VolumeHost, group: string, volume: ReportedVolume): Promise<void> {
  if (volume.tags.includes(WIPE_BEGUN_TAG)) return;
  await host.queues.run(group, async () => {
    const args = [...tagArguments("--addtag", [WIPE_BEGUN_TAG]), `${group}/${volume.name}`];
    await host.lvm.run("lvmd-wipe/mark", "lvchange", args);
    host.reports.note({ kind: "Tagged", group, name: volume.name, add: [WIPE_BEGUN_TAG], remove: [] });
  });
}

/** Throws a Refusal, FAILED_PRECONDITION. */
export function refuseWiped(group: string, { name, tags }: Pick<ReportedVolume, "name" | "tags">): void {
  if (!tags.includes(WIPE_BEGUN_TAG)) return;
  throw new Refusal(
    "FAILED_PRECONDITION",
    `the wipe of volume ${group}/${name} has begun, so its data is incomplete. Remove it`,
  );
}

// Overwrites parts of a thick volume that is held already with zeros, or discards parts of a thin one.

/** As an effect of its caller. */
type RunZeroing = (path: `/${string}`, args: readonly string[], options: CommandOptions) => Promise<CommandResult>;

export const BLKDISCARD = "/usr/sbin/blkdiscard";
/** Written out within the time limit of one command by a disk of 10 MB/s that reductions are zeroed on as well. */
const PIECE_BYTES = 128 * 2 ** 20;
const PIECE_LIMIT_MS = 60_000;

async function zeroAll({ commands }: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, sizeBytes - offset);
    await zeroPiece((...command) => commands.run("lvmd-wipe/zero", ...command), path, offset, length);
  }
}

/** The kernel lets the device do it where it can, and writes zeros where it cannot. Throws LvmError. */
export function zeroPiece(run: RunZeroing, path: string, offset: number, length: number): Promise<void> {
  return clear(run, ["--zeroout"], path, offset, length);
}

/** Of a thin volume: what only it has goes back to its pool. Throws LvmError. */
export function discardPiece(run: RunZeroing, path: string, offset: number, length: number): Promise<void> {
  return clear(run, [], path, offset, length);
}

async function clear(
  run: RunZeroing,
  how: readonly string[],
  path: string,
  offset: number,
  length: number,
): Promise<void> {
  // It is held already: --force lets blkdiscard open it all the same.
  const args = ["--force", ...how, "--offset", String(offset), "--length", String(length), path];
  await toolOutput(`blkdiscard of ${path}`, run(BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS }));
}

// Removes a volume so that no later one shows what was on it: zeros first, then LVM. Of thin volumes their pool sees to that, by zeroing
// what it hands out. A crash in between leaves the volume, wiped in part and marked so: the same call begins again.

const ATTEMPTS = 3;

/** When it returns it is gone, or there was none. */
export async function wipeAndRemove(host: VolumeHost, className: string, name: string): Promise<void> {
  const deviceClass = classOf(host, className);
  refuseVolumeName(name);
  // A wipe takes its time: the group's turn is for its beginning and its end.
  return host.queues.run(`wipe of ${deviceClass.volumeGroup}/${name}`, async () => {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      // In the group's turn: what was asked for before, and waits for it still, is made by then.
      const found = await host.queues.run(deviceClass.volumeGroup, () => findInTurn(host, deviceClass, name));
      if (found === undefined) return;
      refuseRemoval(found);
      const wiped = found.state.thin === undefined ? await wipe(host, found) : await letItsPoolZero(host, found);
      if ((await removeUnlessGrown(host, deviceClass, name, wiped)) === "Removed") return;
    }
    throw new Refusal("ABORTED", `volume ${name} grew while it was wiped, ${ATTEMPTS} times`);
  });
}

/** In the group's turn. Undefined: it is nowhere on this machine; what is elsewhere is refused, and so is a class that cannot be used. */
async function findInTurn(host: VolumeHost, deviceClass: DeviceClass, name: string): Promise<FoundVolume | undefined> {
  try {
    return await freshVolumeOf(host, deviceClass, name);
  } catch (error) {
    if (refusalOrThrow(error).code === "NOT_FOUND") return undefined;
    throw error;
  }
}

/** lvs(8): the sixth character of lv_attr is "o" for an open device. */
function refuseRemoval(found: FoundVolume): void {
  const { state, volume } = found;
  const broken = impairment(state);
  if (broken !== undefined) throw new Refusal("FAILED_PRECONDITION", broken);
  if (volume.attr.charAt(5) === "o") throw inUse(`${state.group.name}/${volume.name}`);
  refuseOrigin(found);
}

/**
 * Zeros written over a thin volume would not do: dm-thin writes over what was ever shared with a snapshot in another place, also when that
 * is gone, and hands out the former one as it is. So the pool must zero. The bytes that no other volume will show.
 */
async function letItsPoolZero(host: VolumeHost, { state: { group, thin }, volume }: FoundVolume): Promise<number> {
  if (thin !== undefined && !zeroes(thin.pool))
    await host.queues.run(group.name, () => letPoolZero(host, group.name, thin.pool));
  return volume.sizeBytes;
}

/** The bytes that were wiped. */
async function wipe(host: VolumeHost, { state: { group }, volume }: FoundVolume): Promise<number> {
  const name = `${group.name}/${volume.name}`;
  const path = volume.path || volumePath(group.name, volume.name);
  const activation = activationArguments(group.name, volume.name);
  if (volume.device === undefined)
    await host.queues.run(group.name, () => host.lvm.run("lvmd-wipe/activate", "lvchange", activation));
  const held = await holdAlone(path);
  if (held === undefined) throw inUse(name);
  try {
    await markWipe(host, group.name, volume); // nothing of it is touched before, nor after it was found in use
    if (isReadOnly(volume))
      await host.queues.run(group.name, () => host.lvm.run("lvmd-wipe/make-writable", "lvchange", ["-p", "rw", name]));
    const sizeBytes = (await readDeviceNode(path))?.sizeBytes ?? volume.sizeBytes;
    // Many at once would share the disk until none ends a piece in its time.
    await host.queues.run(`zeroing in ${group.name}`, () => zeroAll(host, path, sizeBytes));
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

/** Undefined: another process holds it. While it is held no process mounts it. */
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
): Promise<"Removed" | "Grown"> {
  return host.queues.run(deviceClass.volumeGroup, async () => {
    const found = await findInTurn(host, deviceClass, name);
    if (found !== undefined && found.volume.sizeBytes > wipedBytes) return "Grown";
    if (found !== undefined) await removeInTurn(host, found);
    return "Removed";
  });
}

function inUse(name: string): Refusal {
  return new Refusal("FAILED_PRECONDITION", `volume ${name} is in use: nothing on it is touched`);
}
