// What ordinary but hostile users keep in a btrfs, by a seed: snapshots, reflinks, tiny files, files without copy-on-write, compressed ones, extended
// attributes and quota groups, on a filesystem that is nearly empty or nearly full.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MIB } from "../../integration/storage/storage-fixture.ts";
import { scatterFiles } from "../../integration/storage/written-files.ts";

export interface HostileContent {
  /** Of the size, 0 to 1. */
  readonly fullness: number;
  readonly snapshots: number;
  /** Each of all files there were. */
  readonly reflinkCopies: number;
  readonly tinyFiles: number;
  readonly nocow: boolean;
  readonly compressed: boolean;
  readonly attributes: number;
  readonly quotaGroups: boolean;
  readonly writerMegabytesPerSecond: number;
  /** Each of the copies is one. */
  readonly subvolumes: boolean;
}

export type Random = () => number;

/** Half of them have snapshots, with which no data is moved. */
export function contentOf(random: Random): HostileContent {
  const pick = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  // Each of its changes is counted for every snapshot: with hundreds of them the kernel is at it for minutes.
  const quotaGroups = random() < 0.25;
  return {
    fullness: 0.1 + random() * 0.85,
    snapshots: quotaGroups
      ? pick(0, 0, 10, 20)
      : pick(0, 0, 0, 0, 1 + Math.floor(random() * 15), 15, Math.floor(random() * 500), 500),
    reflinkCopies: pick(0, 3, 14, quotaGroups ? 3 : 30, quotaGroups ? 3 : 120),
    tinyFiles: pick(0, 500, 3000),
    nocow: random() < 0.3,
    compressed: random() < 0.3,
    attributes: pick(0, 0, 500),
    quotaGroups,
    writerMegabytesPerSecond: pick(0, 4, 20, 60),
    subvolumes: random() < 0.5,
  };
}

const SCATTERED_BYTES = 8 * MIB;
const HOT_BYTES = 16 * MIB;
const MANY_COPIES = "test/vm/hostile/many-copies.pl";

/** Files with checksums go into the manifest, by names below the mount path. */
export function fill(mountPath: string, manifest: string, content: HostileContent, random: Random): void {
  if (content.quotaGroups) run("btrfs", "quota", "enable", mountPath);
  const scattered = directoryIn(mountPath, "scattered", content);
  const { blocks, bsize } = statfsSync(mountPath);
  const wantedFiles = Math.floor((blocks * bsize * Math.min(content.fullness, 0.8)) / SCATTERED_BYTES);
  // What is deleted again leaves holes between what stays.
  scatterFiles(scattered, manifest, wantedFiles, content.fullness < 0.5 ? 3 : 1, "scattered/");
  const tiny = directoryIn(mountPath, "tiny", content);
  for (let index = 0; index < content.tinyFiles; index += 1) writeFileSync(join(tiny, `t${index}`), randomBytes(1500));
  if (content.attributes > 0) addAttributes(tiny, content.attributes / 50);
  const hot = join(mountPath, "hot");
  writeFileSync(hot, randomBytes(HOT_BYTES));
  mkdirSync(join(mountPath, "snapshots"));
  const { reflinkCopies, subvolumes, snapshots } = content;
  run("perl", MANY_COPIES, mountPath, String(reflinkCopies), subvolumes ? "1" : "0", String(snapshots));
  if (random() < 0.3) rmSync(join(mountPath, "tiny"), { recursive: true });
  run("sync", "--file-system", mountPath);
}

/** 50 for each of so many files. */
function addAttributes(directory: string, files: number): void {
  const attributes = Array.from(
    { length: 50 },
    (_, index) => `user.k${index}="${String(index).padStart(200, "0")}"`,
  ).join("\n");
  const names = Array.from({ length: files }, (_, index) => join(directory, `a${index}`));
  for (const name of names) writeFileSync(name, "a");
  const dump = names.map((name) => `# file: ${name}\n${attributes}\n`).join("\n");
  execFileSync("setfattr", ["--restore=-"], { input: dump, stdio: ["pipe", "ignore", "pipe"] });
}

function directoryIn(mountPath: string, name: string, { nocow, compressed }: HostileContent): string {
  const directory = join(mountPath, name);
  mkdirSync(directory, { recursive: true });
  if (nocow) run("chattr", "+C", directory);
  else if (compressed) run("btrfs", "property", "set", directory, "compression", "zstd");
  return directory;
}

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
}
