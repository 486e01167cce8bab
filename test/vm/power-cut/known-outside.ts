// What is known outside of the machine, as in the cluster's API: a file of the host's, which no power cut of the machine takes.
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { settings } from "./node-in-machine.ts";

/** Undefined: nothing was noted yet. */
export function knownOutside<T>(name: string): T | undefined {
  const path = pathOf(name);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as T) : undefined;
}

/** As a whole, or not at all. */
export function noteOutside(name: string, known: unknown): void {
  const path = pathOf(name);
  const file = openSync(`${path}.new`, "w");
  writeSync(file, JSON.stringify(known));
  fsyncSync(file);
  closeSync(file);
  renameSync(`${path}.new`, path);
}

const pathOf = (name: string): string => join(settings.directory, `${name}.known.json`);
