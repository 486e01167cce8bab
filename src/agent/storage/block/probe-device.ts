// What is on a member's device, and whether anybody holds it: what is looked at before anything is done to it.
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { mountedAnywhere } from "../loop/loop-device.ts";
import { StorageError, type VolumeIdentity } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import { waitUntil } from "../wait-until.ts";
import type { Signature } from "./format-decision.ts";

// A dead agent's mkfs or mount may still hold the device; whoever wants longer asks again.
const EXCLUSIVE_LIMIT_MS = 3_000;
const EXCLUSIVE_INTERVAL_MS = 50;

/** Throws DeviceBusy when somebody holds the device for longer than a dying command would. */
export async function waitForExclusive(volume: VolumeIdentity, device: string): Promise<void> {
  if (await waitUntil(() => opensExclusively(device), EXCLUSIVE_LIMIT_MS, EXCLUSIVE_INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is in use (${mountedAnywhere(device) ?? "not mounted"}); unmount it wherever it is ` +
      `mounted, or end what holds it (fuser -v ${device})`,
  );
}

// wipefs without --all only lists. Unlike blkid it tells "nothing there" from "could not read".
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
    if ((error as NodeJS.ErrnoException).code === "EBUSY") return false;
    throw error;
  }
}
