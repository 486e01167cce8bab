// Whether the agent's directories lie where they lay before: a disk of their own that is not mounted after a boot leaves an empty directory on
// the node's disk, in which every record and member would seem never to have been. Where they lay is kept beside the CSI socket, which
// kubelet keeps. A directory that somebody has deleted lies where it lay, and is made again.
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { z } from "zod";
import type { FilePort } from "../process/file-port.ts";
import type { AgentConfig } from "./config.ts";
import { type MountTable, parseMounts, readMountTable } from "./storage/mount-table.ts";

type Directories = Pick<AgentConfig, "stateDirectory" | "memberDirectory" | "csiSocket">;

const RECORD_NAME = "places.json";
/** By the directory's path: its path within its filesystem, which no boot changes as it changes devices' numbers. */
const placesRecord = z.record(z.string(), z.string());

/** Throws, with nothing made, where one lies elsewhere now and nothing is in it; records where they lie. */
export async function keepPlaces({ stateDirectory, memberDirectory, csiSocket }: Directories, files: FilePort) {
  const recordPath = join(dirname(csiSocket), RECORD_NAME);
  const known = readPlaces(recordPath);
  const table = readMountTable();
  const places = Object.fromEntries(
    [stateDirectory, memberDirectory].map((directory) => [directory, placeOf(directory, table)]),
  );
  for (const [directory, place] of Object.entries(places)) {
    const before = known[directory];
    if (before !== undefined && before !== place && isUnused(directory))
      throw new Error(
        `Mount the disk of ${directory} and restart the agent: the directory was "${before}" of its filesystem, is "${place}" of another ` +
          `one now, and nothing is in it. If what was in it is lost for good, delete ${recordPath}`,
      );
  }
  const all = { ...known, ...places };
  if (JSON.stringify(all) !== JSON.stringify(known))
    await files.writeWhole("agent-state/record-places", recordPath, `${JSON.stringify(all, null, 2)}\n`);
}

/** What is not readable says nothing: nothing is refused for it. */
function readPlaces(path: string): Readonly<Record<string, string>> {
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
    .filter(({ mountPath }) => real === mountPath || real.startsWith(mountPath === "/" ? "/" : `${mountPath}/`))
    .reduce((longest, mount) => (mount.mountPath.length >= longest.mountPath.length ? mount : longest), ROOT);
  return join(holding.root, relative(holding.mountPath, real));
}

const ROOT = { mountPath: "/", root: "/" };

/** Whatever is in it, empty directories apart, somebody has put there. */
function isUnused(directory: string): boolean {
  if (!existsSync(directory)) return true;
  return readdirSync(directory, { recursive: true, withFileTypes: true }).every((entry) => entry.isDirectory());
}
