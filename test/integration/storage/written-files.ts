// Files with known checksums: made by a writer process that knows nothing of Tidemark, or at once; and their verification.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MIB } from "./storage-fixture.ts";

const SCATTERED_BYTES = 8 * MIB;
const WRITER = fileURLToPath(new URL("checksummed-writer.mjs", import.meta.url));

export interface Writer {
  /** What the first failing write said ("ENOSPC", "EROFS"); undefined while all went well. */
  readonly error: () => string | undefined;
  stop(): Promise<void>;
}

export interface WriterSettings {
  readonly megabytesPerSecond: number;
  /** Older files are deleted. */
  readonly keptFiles: number;
  readonly prefix?: string;
  /** What the manifest names has reached the disk. */
  readonly synced?: boolean;
}

export function startWriter(directory: string, manifest: string, settings: WriterSettings): Writer {
  const { megabytesPerSecond, keptFiles, prefix = "w", synced = false } = settings;
  const args = [
    WRITER,
    directory,
    manifest,
    String(megabytesPerSecond),
    String(keptFiles),
    prefix,
    synced ? "synced" : "",
  ];
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let error: string | undefined;
  child.stdout?.on("data", (text: Buffer) => {
    error = text.toString().trim();
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return {
    error: () => error,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/**
 * Fills with `count` files of 8 MiB and deletes all but every `nth`, so that what stays lies all over the device: nothing is
 * deleted before all of it has its place there, which on a machine with much memory it would not have yet.
 */
export function scatterFiles(directory: string, manifest: string, count: number, nth: number, prefix = ""): void {
  scatter(directory, manifest, count, nth, (path, content) => writeFileSync(path, content), prefix);
}

/** The same for a filesystem whose free space nobody looks at: what will be deleted gets its place and no content, which is most of the work. */
export function scatterInReserved(directory: string, manifest: string, count: number, nth: number): void {
  const reserve = `for i in $(seq 0 ${count - 1}); do fallocate --length ${SCATTERED_BYTES} "$1/s$i" || exit; done`;
  execFileSync("sh", ["-c", reserve, "sh", directory]);
  scatter(directory, manifest, count, nth, (path, content, isKept) => {
    if (isKept) writeFileSync(path, content, { flag: "r+" }); // where its place was reserved
  });
}

function scatter(
  directory: string,
  manifest: string,
  count: number,
  nth: number,
  write: (path: string, content: Buffer, isKept: boolean) => void,
  /** Of its names in the manifest. */
  prefix = "",
): void {
  const content = randomBytes(SCATTERED_BYTES);
  const isKept = (index: number): boolean => index % nth === 0;
  for (let index = 0; index < count; index += 1) {
    content.writeUInt32LE(index, 0);
    write(join(directory, `s${index}`), content, isKept(index));
    if (isKept(index)) appendFileSync(manifest, `${prefix}s${index} ${checksum(content)}\n`);
  }
  execFileSync("sync", ["--file-system", directory]);
  for (let index = 0; index < count; index += 1) if (!isKept(index)) rmSync(join(directory, `s${index}`));
}

export interface Verification {
  readonly files: number;
  readonly corrupt: readonly string[];
}

/** Compares every file of the manifest that is still there with what was written last under its name. */
export function verifyFiles(directory: string, manifest: string): Verification {
  const sums = new Map<string, string>();
  for (const line of readFileSync(manifest, "utf8").split("\n").filter(Boolean)) {
    const [name = "", sum = ""] = line.split(" ");
    sums.set(name, sum);
  }
  const present = [...sums].filter(([name]) => existsSync(join(directory, name)));
  const corrupt = present.filter(([name, sum]) => checksum(readFileSync(join(directory, name))) !== sum);
  return { files: present.length, corrupt: corrupt.map(([name]) => name) };
}

function checksum(content: Buffer): string {
  return createHash("sha1").update(content).digest("hex");
}
