// The one place that writes files: each write is an effect. Reading is free and done with node:fs where it is needed.
import { constants } from "node:fs";
import { access, link, mkdir, open, rename, rm, rmdir, stat, truncate } from "node:fs/promises";
import { dirname } from "node:path";
import type { EffectPoint, Effects } from "./effects.ts";

/**
 * What a written file must outlive; syncing for a power cut can wait for seconds on a busy disk. After one, a file that need outlive the process
 * alone may be empty: what was synced before it stays at `syncedPath` until the next synced write.
 */
export type Durability = "ProcessDeath" | "PowerCut";

/** Where the last synced contents of a file are while newer ones are not synced; none there: the file itself has them, or never had any. */
export function syncedPath(path: string): string {
  return `${path}.synced`;
}

export interface FileRange {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

export interface FilePort {
  /**
   * Replaces the file as a whole, or not at all: written to a second file, synced (for "PowerCut", the default), renamed. Where it is not
   * synced, its last synced contents stay at `syncedPath`. A removed directory is recreated; where its disk is gone since the last write,
   * it throws ENODEV instead.
   */
  writeWhole(point: EffectPoint, path: string, text: string, mode?: number, durability?: Durability): Promise<void>;
  /** Creates an empty file of this mode; throws EEXIST when there is one. */
  createNew(point: EffectPoint, path: string, mode: number): Promise<void>;
  /**
   * Sets the length of an existing file; growing leaves a hole. Not synced: a sync would wait for all that a filesystem inside the file has
   * just written. A caller that relies on the new length after a power cut flushes (a loop device's flush does).
   */
  truncate(point: EffectPoint, path: string, sizeBytes: number): Promise<void>;
  /** Writes and waits; kernel interfaces in /sys and /proc. */
  writeKernel(point: EffectPoint, path: string, text: string): Promise<void>;
  /**
   * Overwrites with zeros, and syncs, those of these ranges of a block device of which `mayBeZeroed` says so, each read whole under the
   * very descriptor that then writes; zeroes nothing where it does not say so of the first. Exclusive: throws EBUSY while another process
   * holds the device.
   */
  zeroExclusively(
    point: EffectPoint,
    devicePath: string,
    ranges: readonly FileRange[],
    mayBeZeroed: (block: Buffer) => boolean,
  ): Promise<"Zeroed" | "Refused">;
  /**
   * Overwrites, and syncs, those of these ranges of a block device for which `rewritten` gives other bytes, all read whole under the very
   * descriptor that then writes; its throw comes before the first write. Exclusive: throws EBUSY while another process holds the device.
   */
  rewriteExclusively(
    point: EffectPoint,
    devicePath: string,
    ranges: readonly FileRange[],
    rewritten: (block: Buffer, range: FileRange) => Buffer | undefined,
  ): Promise<void>;
  makeDirectory(point: EffectPoint, path: string, mode?: number): Promise<void>;
  /** Removes a file, with what was synced of it, or an empty directory tree of ours; no error when there is none. */
  remove(point: EffectPoint, path: string): Promise<void>;
  /** Removes a directory of ours if nothing is in it at that moment. */
  removeEmpty(point: EffectPoint, path: string): Promise<void>;
}

export function createFilePort(effects: Effects): FilePort {
  const disks: Disks = new Map();
  return {
    writeWhole: (point, path, text, mode = 0o600, durability = "PowerCut") =>
      effects.run(point, () => inDirectory(disks, path, durability, () => writeWhole(path, text, mode, durability))),
    createNew: (point, path, mode) => effects.run(point, async () => (await open(path, "wx", mode)).close()),
    truncate: (point, path, sizeBytes) => effects.run(point, () => truncate(path, sizeBytes)),
    writeKernel: (point, path, text) => effects.run(point, () => withHandle(path, "w", (file) => file.writeFile(text))),
    zeroExclusively: (point, devicePath, ranges, mayBeZeroed) =>
      effects.run(point, () => zeroExclusively(devicePath, ranges, mayBeZeroed)),
    rewriteExclusively: (point, devicePath, ranges, rewritten) =>
      effects.run(point, () => rewriteExclusively(devicePath, ranges, rewritten)),
    makeDirectory: (point, path, mode = 0o700) =>
      effects.run(point, async () => {
        await mkdir(path, { recursive: true, mode });
      }),
    remove: (point, path) =>
      effects.run(point, async () => {
        for (const each of [path, syncedPath(path)]) await rm(each, { force: true, recursive: true });
      }),
    removeEmpty: (point, path) => effects.run(point, () => removeEmpty(path)),
  };
}

/** The device of each directory that was written to, as few as there are kinds of records. */
type Disks = Map<string, number>;

/** `write` creates a file at this path: once more where its directory was missing. */
async function inDirectory(
  disks: Disks,
  path: string,
  durability: Durability,
  write: () => Promise<void>,
): Promise<void> {
  const directory = dirname(path);
  try {
    await write();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    await assertSameDisk(disks, directory);
    await makeMissing(directory, durability);
    await write();
  }
  const written = await stat(directory).catch(() => undefined); // removed since: the file is written all the same
  if (written !== undefined) disks.set(directory, written.dev);
}

/** A disk that was unmounted leaves an empty directory: what is made there would be on another one, and hidden once the disk is back. */
async function assertSameDisk(disks: Disks, directory: string): Promise<void> {
  const known = disks.get(directory);
  if (known === undefined || known === (await deviceUnder(directory))) return;
  throw Object.assign(new Error(`ENODEV: the disk that ${directory} was on is not mounted there`), { code: "ENODEV" });
}

/** Of the directory, or of the nearest one above it that is there. */
async function deviceUnder(directory: string): Promise<number> {
  try {
    return (await stat(directory)).dev;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || directory === dirname(directory)) throw error;
    return deviceUnder(dirname(directory));
  }
}

async function makeMissing(directory: string, durability: Durability): Promise<void> {
  const first = await mkdir(directory, { recursive: true, mode: 0o700 });
  if (first === undefined || durability === "ProcessDeath") return;
  for (let made = directory; made.length >= first.length; made = dirname(made)) await syncDirectory(dirname(made));
}

async function syncDirectory(path: string): Promise<void> {
  await withHandle(path, "r", (directory) => directory.sync());
}

async function writeWhole(path: string, text: string, mode: number, durability: Durability): Promise<void> {
  const beside = `${path}.new`;
  await rm(beside, { force: true });
  await withHandle(
    beside,
    "wx",
    async (file) => {
      await file.writeFile(text);
      if (durability === "PowerCut") await file.sync();
    },
    mode,
  );
  await (durability === "ProcessDeath" ? keepSynced(path) : renewSynced(beside, path));
  await rename(beside, path);
  if (durability === "ProcessDeath") return;
  await syncDirectory(dirname(path));
  await rm(syncedPath(path), { force: true });
}

const NO_LINKS = ["EPERM", "ENOTSUP"];

/**
 * The journal of a filesystem has this link before the rename that follows it. One that is there already is of a synced write, too. A
 * filesystem without links has none.
 */
async function keepSynced(path: string): Promise<void> {
  try {
    await link(path, syncedPath(path));
  } catch (error) {
    if (!["EEXIST", "ENOENT", ...NO_LINKS].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

/**
 * Before the file itself changes: after a process' death the next one goes on from the file's contents, and the synced copy must not be
 * older than those. `written` is synced.
 */
async function renewSynced(written: string, path: string): Promise<void> {
  if (!(await exists(syncedPath(path)))) return;
  const second = `${path}.second`;
  await rm(second, { force: true });
  await link(written, second);
  await rename(second, syncedPath(path));
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function removeEmpty(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (error) {
    if (!["ENOENT", "ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

async function zeroExclusively(
  devicePath: string,
  ranges: readonly FileRange[],
  mayBeZeroed: (block: Buffer) => boolean,
): Promise<"Zeroed" | "Refused"> {
  const [first] = ranges;
  return withHandle(devicePath, constants.O_RDWR | constants.O_EXCL, async (device) => {
    const chosen: FileRange[] = [];
    for (const range of ranges) {
      const block = Buffer.alloc(range.lengthBytes);
      const { bytesRead } = await device.read(block, 0, range.lengthBytes, range.offsetBytes);
      if (bytesRead === range.lengthBytes && mayBeZeroed(block)) chosen.push(range);
    }
    if (first === undefined || chosen[0] !== first) return "Refused";
    for (const { offsetBytes, lengthBytes } of chosen)
      await device.write(Buffer.alloc(lengthBytes), 0, lengthBytes, offsetBytes);
    await device.sync();
    return "Zeroed";
  });
}

async function rewriteExclusively(
  devicePath: string,
  ranges: readonly FileRange[],
  rewritten: (block: Buffer, range: FileRange) => Buffer | undefined,
): Promise<void> {
  await withHandle(devicePath, constants.O_RDWR | constants.O_EXCL, async (device) => {
    const changes: { readonly block: Buffer; readonly offsetBytes: number }[] = [];
    for (const range of ranges) {
      const block = Buffer.alloc(range.lengthBytes);
      const { bytesRead } = await device.read(block, 0, range.lengthBytes, range.offsetBytes);
      const other = bytesRead === range.lengthBytes ? rewritten(block, range) : undefined;
      if (other !== undefined && !other.equals(block)) changes.push({ block: other, offsetBytes: range.offsetBytes });
    }
    for (const { block, offsetBytes } of changes) await device.write(block, 0, block.length, offsetBytes);
    await device.sync();
  });
}

type Handle = Awaited<ReturnType<typeof open>>;

async function withHandle<T>(
  path: string,
  flags: string | number,
  use: (file: Handle) => Promise<T>,
  mode?: number,
): Promise<T> {
  const file = await open(path, flags, mode);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}
