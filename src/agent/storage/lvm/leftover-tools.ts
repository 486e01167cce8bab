// What a dead agent has begun on a device and that still runs: it may not even have opened it yet.
import { basename } from "node:path";
import { runningCommands } from "../../../process/running-commands.ts";
import { StorageError, type VolumeIdentity } from "../storage.ts";
import { waitUntil } from "../wait-until.ts";

const CHANGING: readonly string[] = ["e2fsck", "resize2fs"];
const LIMIT_MS = 20_000;
const INTERVAL_MS = 100;

/** Throws DeviceBusy where one goes on for longer. */
export async function waitForTools(volume: VolumeIdentity, device: string): Promise<void> {
  if (await waitUntil(async () => (await leftoverTool(device)) === undefined, LIMIT_MS, INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${(await leftoverTool(device)) ?? "a command"} of a former agent still runs on ${volume.handle}; wait until it has ended, or end it`,
  );
}

async function leftoverTool(device: string): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands(CHANGING)) {
    if (words === undefined)
      throw new StorageError("DeviceBusy", `process ${pid} changes a filesystem, and which one cannot be read`);
    const [program = "", ...args] = words;
    if (CHANGING.includes(basename(program)) && args.includes(device)) return `${program} (process ${pid})`;
  }
  return undefined;
}
