// Archives of images that were packed before, by what is in them: a cache outside of the repository, which packs each image once and keeps
// the newest few of each. An archive appears in it whole or not at all, however many processes pack the same image at once.
import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { tarEntriesOf } from "./layer.ts";
import { type Image, writeOciArchive } from "./oci-archive.ts";
import type { TarEntry } from "./tar.ts";

const KEY_LENGTH = 16;
/** Of each name, the archives that were used last. */
const KEPT_COUNT = 4;
/** Another process may be about to read an archive that it has just found. */
const UNUSED_MIN_MS = 3_600_000;
const ARCHIVE = "image.tar";
const DIGEST = "digest";

export interface PackedImage {
  /** Of its OCI archive. */
  readonly path: string;
  /** Full references; what a runtime calls it when it has it. */
  readonly names: readonly string[];
  /** Of its manifest, "sha256:...". */
  readonly digest: string;
}

export function imageCacheDirectory(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "tidemark", "images");
}

/** Packs it unless an image of the same content is there. */
export async function packedImage(image: Image, cacheDirectory = imageCacheDirectory()): Promise<PackedImage> {
  const name = basename(image.names[0] ?? "").replaceAll(":", "_");
  const directory = join(cacheDirectory, `${name}-${await contentKey(image)}`);
  if (!existsSync(directory)) await pack(image, cacheDirectory, directory);
  const now = new Date();
  utimesSync(directory, now, now);
  removeUnused(cacheDirectory, `${name}-`);
  const digest = readFileSync(join(directory, DIGEST), "utf8");
  return { path: join(directory, ARCHIVE), names: image.names, digest };
}

async function pack(image: Image, cacheDirectory: string, directory: string): Promise<void> {
  mkdirSync(cacheDirectory, { recursive: true });
  const packing = await mkdtemp(join(cacheDirectory, ".packing-"));
  try {
    const digest = await writeOciArchive({ ...image, path: join(packing, ARCHIVE) });
    await writeFile(join(packing, DIGEST), digest);
    await rename(packing, directory);
  } catch (error) {
    if (!existsSync(directory)) throw error; // else another process has packed the same in between
  } finally {
    await rm(packing, { recursive: true, force: true });
  }
}

function removeUnused(cacheDirectory: string, prefix: string): void {
  const unused = (directory: string): boolean => Date.now() - lastUseMs(directory) > UNUSED_MIN_MS;
  const directories = readdirSync(cacheDirectory).map((name) => join(cacheDirectory, name));
  const abandoned = directories.filter((directory) => basename(directory).startsWith(".packing-"));
  const older = directories
    .filter((directory) => basename(directory).slice(0, -KEY_LENGTH) === prefix)
    .sort((a, b) => lastUseMs(b) - lastUseMs(a))
    .slice(KEPT_COUNT);
  for (const directory of [...abandoned, ...older].filter(unused)) rmSync(directory, { recursive: true, force: true });
}

/** 0: another process has removed it. */
function lastUseMs(directory: string): number {
  return statSync(directory, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** The bytes of every file count, not their names on this machine. */
async function contentKey({ layers, ...settings }: Image): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify(settings));
  for (const layer of layers) {
    hash.update("layer\n");
    for (const entry of tarEntriesOf(layer)) hash.update(`${JSON.stringify(await entryKey(entry))}\n`);
  }
  return hash.digest("hex").slice(0, KEY_LENGTH);
}

async function entryKey(entry: TarEntry): Promise<object> {
  if (entry.type !== "file") return entry;
  const { content, ...rest } = entry;
  const hash = createHash("sha256");
  if ("bytes" in content) hash.update(content.bytes);
  else await pipeline(createReadStream(content.from, { highWaterMark: 1 << 20 }), hash);
  return { ...rest, content: hash.digest("hex") };
}
