// A volume's loop device. There is one kernel below all nodes of the test cluster, so a volume that one node has attached the
// others see as well; devices are found by the volume's id in the name of the file behind them, deleted or not.
import { closeSync, constants, openSync, readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { runProgram } from "../cluster/run-program.ts";

const SECTOR_BYTES = 512;
const DETACH_TRIES = 40;
const DETACH_INTERVAL_MS = 50;

export function loopOf(volumeId: string): string | undefined {
  const isIts = (name: string): boolean => basename(readLoopFile(name, "backing_file")).startsWith(`${volumeId}.img`);
  const name = readdirSync("/sys/block").find((one) => one.startsWith("loop") && isIts(one));
  return name === undefined ? undefined : `/dev/${name}`;
}

/** Of the file's present size. Throws while the last user of a detached device is still to close it. */
export async function attachLoop(volumeId: string, imagePath: string): Promise<string> {
  const present = loopOf(volumeId);
  if (present === undefined)
    return (await runProgram("losetup", ["--find", "--show", "--nooverlap", imagePath])).trim();
  if (readLoopFile(basename(present), "autoclear") === "1")
    throw new Error(`${present} of volume ${volumeId} was detached, and something still has it open`);
  await refreshLoop(present);
  return present;
}

export async function refreshLoop(device: string): Promise<void> {
  await runProgram("losetup", ["--set-capacity", device]);
}

/**
 * False: it is in use. `withUpper` takes away the device that a dead node's kubelet had put over a block volume. One that is open
 * without a claim of exclusiveness is gone when it is closed.
 */
export async function detachLoop(volumeId: string, { withUpper }: { readonly withUpper: boolean }): Promise<boolean> {
  const device = loopOf(volumeId);
  if (device === undefined) return true;
  if (!opensExclusively(device)) return false;
  for (const one of [...(withUpper ? await loopsOn(device) : []), device])
    await runProgram("losetup", ["--detach", one]).catch((error: unknown) => {
      if (readLoopFile(basename(one), "backing_file") !== "") throw error; // else its last user has just closed it
    });
  for (let tried = 0; tried < DETACH_TRIES && loopOf(volumeId) !== undefined; tried += 1)
    await sleep(DETACH_INTERVAL_MS);
  return loopOf(volumeId) === undefined;
}

/** By inode: of a device in another mount namespace no path is told. */
async function loopsOn(device: string): Promise<string[]> {
  const listed = await runProgram("losetup", ["--noheadings", "--output", "NAME", "--associated", device]);
  return listed.split("\n").filter((name) => name !== "");
}

function readLoopFile(name: string, file: "backing_file" | "autoclear"): string {
  try {
    return readFileSync(`/sys/block/${name}/loop/${file}`, "utf8").trim();
  } catch {
    return ""; // not attached
  }
}

/** A mounted filesystem and a device mapper's table hold their device for themselves. */
function opensExclusively(device: string): boolean {
  try {
    closeSync(openSync(device, constants.O_RDWR | constants.O_EXCL));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    return false;
  }
}

export function deviceBytes(device: string): number {
  return Number(readFileSync(`/sys/block/${basename(device)}/size`, "utf8")) * SECTOR_BYTES;
}
