// What is on a member's device, and whether a process holds it: checked before anything is done to the device.

import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { mountedAnywhere } from "../filesystem/devices-and-mounts.ts";
import type { VolumeIdentity } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Tools } from "../tools.ts";

/** A filesystem, partition table, swap area … as wipefs finds them, at any offset. */
export interface Signature {
  readonly type: string;
  readonly uuid: string;
}

// A dead agent's mkfs or mount may still hold the device; a caller that wants to wait longer calls again.
const EXCLUSIVE_LIMIT_MS = 3_000;
const EXCLUSIVE_INTERVAL_MS = 50;

/** Of a device that is there while its disk is not: taken away, or at the end of a path that is offline. */
const NO_DISK: readonly string[] = ["ENXIO", "ENODEV", "ENOENT", "EIO", "EREMOTEIO", "ENOMEDIUM", "ETIMEDOUT"];

/**
 * Throws DeviceBusy when a process holds the device for longer than a dying command would, and MembersMissing where its disk does not
 * answer.
 */
export async function waitForExclusive(volume: VolumeIdentity, device: string): Promise<void> {
  const opens = (): Promise<boolean> => opensExclusively(device);
  if (await waitUntil(opens, EXCLUSIVE_LIMIT_MS, EXCLUSIVE_INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is in use (${mountedAnywhere(device) ?? "not mounted"}); unmount it wherever it is ` +
      `mounted, or end what holds it (fuser -v ${device})`,
  );
}

// wipefs without --all only lists. Unlike blkid it distinguishes "nothing there" from "could not read".
export async function probe(tools: Tools, volume: VolumeIdentity, device: string): Promise<Signature[]> {
  const listed = await tools.query("wipefs", ["--noheadings", "--output", "TYPE,UUID", device]);
  return expectSuccess(listed, `looking for signatures on ${device} of ${volume.handle}`)
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [type = "", uuid = ""] = line.trim().split(/\s+/);
      return { type, uuid: uuid.toLowerCase() };
    });
}

// Fails while the kernel or another program holds the device for itself: mounted anywhere, or under mkfs.
async function opensExclusively(device: string): Promise<boolean> {
  try {
    await (await open(device, constants.O_RDONLY | constants.O_EXCL)).close();
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "EBUSY") return false;
    if (!NO_DISK.includes(code)) throw error;
    throw new StorageError(
      "MembersMissing",
      `see dmesg, and bring its disk back, or the path to it: ${device} is there and cannot be opened (${code})`,
      error,
    );
  }
}
