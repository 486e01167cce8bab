// What is on a volume, asked of the device itself: every signature that libblkid knows, and where the one filesystem ends.
import { open } from "node:fs/promises";
import { z } from "zod";
import type { CommandPort } from "../../process/command-port.ts";
import { LvmError, toolOutput } from "../lvm/lvm-error.ts";
import { KNOWN_FILESYSTEMS, readFilesystemEnd, SuperblockError } from "./filesystem-end.ts";

export type Signature =
  | { readonly kind: "Filesystem"; readonly type: string; readonly endBytes: number }
  /** Nothing that could be proved to end anywhere; `what` completes "there is …". */
  | { readonly kind: "Unknown"; readonly what: string };

const WIPEFS = "/usr/sbin/wipefs";
const TIME_LIMIT_MS = 30_000;

/** `reachBytes`: how far the device is to reach. Throws LvmError where the device does not answer. */
export async function readSignature(commands: CommandPort, path: string, reachBytes: number): Promise<Signature> {
  const types = await signatureTypes(commands, path);
  const [type] = types;
  if (type === undefined) return { kind: "Unknown", what: "no filesystem on it" };
  const known = KNOWN_FILESYSTEMS.find((candidate) => candidate === type);
  if (types.length > 1 || known === undefined) return { kind: "Unknown", what: `${types.join(" and ")} on it` };
  try {
    return { kind: "Filesystem", type, endBytes: await withinLimit(readEnd(path, known, reachBytes), path) };
  } catch (error) {
    if (error instanceof SuperblockError) return { kind: "Unknown", what: `a ${type} on it, but ${error.message}` };
    throw error;
  }
}

async function signatureTypes(commands: CommandPort, path: string): Promise<string[]> {
  const args = ["--no-act", "--json", path];
  const stdout = await toolOutput(`wipefs of ${path}`, commands.query(WIPEFS, args, { timeLimitMs: TIME_LIMIT_MS }));
  if (stdout.trim() === "") return [];
  return [...new Set(listOf(stdout, path).map(({ type = "something" }) => type))];
}

const listed = z.object({ signatures: z.array(z.object({ type: z.string().optional() })).default([]) });

function listOf(stdout: string, path: string): z.infer<typeof listed>["signatures"] {
  try {
    return listed.parse(JSON.parse(stdout)).signatures;
  } catch (error) {
    throw new LvmError("Unreadable", `wipefs of ${path} gave no list of signatures: ${stdout.slice(0, 200)}`, error);
  }
}

async function readEnd(path: string, type: (typeof KNOWN_FILESYSTEMS)[number], reachBytes: number): Promise<number> {
  const device = await open(path, "r");
  try {
    // What the filesystem has written is in the device's page cache; from here on it is on the disk as well.
    await device.sync();
    return await readFilesystemEnd(device, type, reachBytes);
  } finally {
    await device.close();
  }
}

function withinLimit<T>(work: Promise<T>, path: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new LvmError("TimedOut", `${path} gave no superblock within ${TIME_LIMIT_MS} ms`, undefined, gone)),
      TIME_LIMIT_MS,
    );
    const gone = work.then(
      () => undefined,
      () => undefined,
    );
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
