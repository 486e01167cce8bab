// Whether the agent's directories lie where they lay before: a disk of their own that is not mounted after a boot leaves an empty directory
// on the node's disk, in which every record and member would seem never to have been. Only the place of a directory with something in it is
// recorded, in the CSI socket's directory, which kubelet owns. A directory that was deleted lies where it lay, and is recreated.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import * as z from "zod";
import type { FilePort } from "../platform/process/effects/file-port.ts";
import type { Logger } from "../platform/process/log.ts";
import type { AgentConfig } from "./config.ts";
import { type MountTable, parseMounts, readMountTable } from "./storage/filesystem/devices-and-mounts.ts";

type Directories = Pick<AgentConfig, "stateDirectory" | "memberDirectory" | "csiSocket">;

const RECORD_NAME = "places.json";
/** By the directory's path: its path within its filesystem, which no boot changes as it changes devices' numbers. */
const placesRecord = z.record(z.string(), z.string());
type Places = z.infer<typeof placesRecord>;

/** Throws, with nothing made, where what was in one lies elsewhere: the directory has another place now, and nothing is in it. */
export function checkPlaces({ stateDirectory, memberDirectory, csiSocket }: Directories): void {
  const recordPath = join(dirname(csiSocket), RECORD_NAME);
  const known = readPlaces(recordPath);
  const table = readMountTable();
  for (const directory of [stateDirectory, memberDirectory]) {
    const before = known[directory];
    if (before === undefined || !isUnused(directory)) continue;
    const place = placeOf(directory, table);
    if (before !== place)
      throw new Error(
        `Mount the disk of ${directory} and restart the agent: "${before}" of its filesystem was there, now "${place}", empty. If its data is lost, delete ${recordPath}`,
      );
  }
}

/**
 * The same files. Where the directories lie is recorded now, at the first file in one, and at the last one that goes. No write waits for that,
 * and one that fails is tried again with a later file.
 */
export async function recordPlaces(directories: Directories, files: FilePort, log: Logger): Promise<FilePort> {
  const { stateDirectory, memberDirectory, csiSocket } = directories;
  const own = [stateDirectory, memberDirectory];
  const recordPath = join(dirname(csiSocket), RECORD_NAME);
  let recorded: Places = {};
  const record = async (begin: "Starts" | "Runs"): Promise<void> => {
    try {
      const known = readPlaces(recordPath);
      const table = readMountTable();
      const now = own.reduce((places, directory) => placesWith(places, directory, table, begin), known);
      if (JSON.stringify(now) !== JSON.stringify(known))
        await files.writeWhole("agent-state/record-places", recordPath, `${JSON.stringify(now, null, 2)}\n`);
      recorded = now;
    } catch (err) {
      log.warn(
        { err, recordPath },
        "Free or repair the disk of this file: where the agent's directories lie is not recorded",
      );
    }
  };
  let recording: Promise<void> | undefined;
  let isAskedAgain = false;
  const recordLater = (): void => {
    isAskedAgain = recording !== undefined;
    recording ??= record("Runs").finally(() => {
      recording = undefined;
      if (isAskedAgain) recordLater();
    });
  };
  const noteFile = (path: string): void => {
    const directory = own.find((one) => isWithin(one, path));
    if (directory !== undefined && recorded[directory] === undefined && !isLock(path)) recordLater();
  };
  await record("Starts");
  return {
    ...files,
    writeWhole: async (point, path, ...rest) => {
      await files.writeWhole(point, path, ...rest);
      noteFile(path);
    },
    createNew: async (point, path, mode) => {
      await files.createNew(point, path, mode);
      noteFile(path);
    },
    remove: async (point, path) => {
      await files.remove(point, path);
      if (own.some((one) => isWithin(one, path))) recordLater();
    },
  };
}

/** A disk that goes while the agent runs changes nothing of what is known; what lies elsewhere as it starts was moved. */
function placesWith(known: Places, directory: string, table: MountTable, begin: "Starts" | "Runs"): Places {
  const before = known[directory];
  const place = placeOf(directory, table);
  if (!isUnused(directory)) return begin === "Runs" && before !== undefined ? known : { ...known, [directory]: place };
  if (before !== place) return known;
  const { [directory]: _emptied, ...others } = known;
  return others;
}

/** What is not readable says nothing: nothing is refused for it. */
function readPlaces(path: string): Places {
  try {
    return placesRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return {};
  }
}

/** Within its filesystem, whether it is there or is yet to be made. */
export function placeOf(directory: string, table: MountTable): string {
  if (!existsSync(directory)) return join(placeOf(dirname(directory), table), basename(directory));
  const real = realpathSync(directory);
  const holding = parseMounts(table.join("\n"))
    .filter(({ mountPath }) => isWithin(mountPath, real))
    .reduce((longest, mount) => (mount.mountPath.length >= longest.mountPath.length ? mount : longest), ROOT);
  return join(holding.root, relative(holding.mountPath, real));
}

const ROOT = { mountPath: "/", root: "/" };

function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(directory === "/" ? "/" : `${directory}/`);
}

/** Lock files stay behind volumes that are gone. Any other file means that the directory holds a volume's data, or another program's. */
function isUnused(directory: string): boolean {
  if (!existsSync(directory)) return true;
  try {
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    return entries.every((entry) => entry.isDirectory() || isLock(entry.name));
  } catch {
    return false; // Nothing is known to be lost where it cannot be read.
  }
}

function isLock(path: string): boolean {
  return path.endsWith(".lock");
}
