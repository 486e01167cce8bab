// A tar stream as bytes that depend on names and contents alone: entries belong to root and were changed at the epoch. It writes what it
// is given, and knows nothing of images.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { type Pack, pack } from "tar-stream";

export type TarContent = { readonly bytes: Buffer } | { readonly from: string };

export type TarEntry =
  /** `path` is relative, without a leading slash. `from` names the file whose bytes are taken. */
  | { readonly type: "file"; readonly path: string; readonly mode: number; readonly content: TarContent }
  | { readonly type: "directory"; readonly path: string; readonly mode: number }
  | { readonly type: "symlink"; readonly path: string; readonly target: string };

/** The stream's pieces, in the order of the entries. */
export async function* tarStream(entries: Iterable<TarEntry>): AsyncGenerator<Buffer> {
  const tar = pack();
  const packed = packAll(tar, entries);
  packed.catch((error: Error) => tar.destroy(error));
  try {
    yield* tar as AsyncIterable<Buffer>;
  } catch (error) {
    await packed; // its error names the entry
    throw error;
  }
}

async function packAll(tar: Pack, entries: Iterable<TarEntry>): Promise<void> {
  for (const entry of entries) {
    const size = entry.type === "file" ? await sizeBytesOf(entry.content) : 0;
    await pipeline(bodyOf(entry), tar.entry({ ...headerOf(entry), size })).catch((cause: Error) => {
      throw new Error(`${entry.path} cannot be packed with ${size} bytes: ${cause.message}`, { cause });
    });
  }
  tar.finalize();
}

function headerOf(entry: TarEntry): {
  name: string;
  type: TarEntry["type"];
  mtime: Date;
  mode: number;
  linkname?: string;
} {
  const header = { name: entry.path, type: entry.type, mtime: new Date(0) };
  return entry.type === "symlink"
    ? { ...header, mode: 0o777, linkname: entry.target }
    : { ...header, mode: entry.mode };
}

async function sizeBytesOf(content: TarContent): Promise<number> {
  return "bytes" in content ? content.bytes.length : (await stat(content.from)).size;
}

function bodyOf(entry: TarEntry): Iterable<Buffer> | AsyncIterable<Buffer> {
  if (entry.type !== "file") return [];
  return "bytes" in entry.content ? [entry.content.bytes] : createReadStream(entry.content.from);
}
