// A tar stream (POSIX ustar, with pax records for long names) as bytes that depend on names and contents alone: entries belong
// to root and were changed at the epoch. It writes what it is told, and knows nothing of images.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";

const BLOCK_BYTES = 512;
const NAME_LIMIT_BYTES = 100;
// Eleven octal digits.
const SIZE_LIMIT_BYTES = 8 * 1024 ** 3;

const TYPE_FLAGS = { file: "0", symlink: "2", directory: "5", pax: "x" } as const;

export type TarContent = { readonly bytes: Buffer } | { readonly from: string };

export type TarEntry =
  /** `path` is relative, without a leading slash. `from` names the file whose bytes are taken. */
  | { readonly type: "file"; readonly path: string; readonly mode: number; readonly content: TarContent }
  | { readonly type: "directory"; readonly path: string; readonly mode: number }
  | { readonly type: "symlink"; readonly path: string; readonly target: string };

/** The stream's pieces, in the order of the entries, with the two empty blocks that end it. */
export async function* tarStream(entries: Iterable<TarEntry>): AsyncGenerator<Buffer> {
  for (const entry of entries) yield* entryBlocks(entry);
  yield Buffer.alloc(2 * BLOCK_BYTES);
}

async function* entryBlocks(entry: TarEntry): AsyncGenerator<Buffer> {
  const target = entry.type === "symlink" ? entry.target : "";
  const sizeBytes = entry.type === "file" ? await contentBytes(entry.content) : 0;
  const long = paxRecord("path", entry.path) + paxRecord("linkpath", target);
  if (long !== "") {
    const records = Buffer.from(long);
    yield header({ type: "pax", path: "pax", target: "", mode: 0o644, sizeBytes: records.length });
    yield records;
    yield padding(records.length);
  }
  const mode = entry.type === "symlink" ? 0o777 : entry.mode;
  yield header({ type: entry.type, path: entry.path, target, mode, sizeBytes });
  if (entry.type !== "file") return;
  yield* contentBlocks(entry, sizeBytes);
  yield padding(sizeBytes);
}

async function contentBytes(content: TarContent): Promise<number> {
  const sizeBytes = "bytes" in content ? content.bytes.length : (await stat(content.from)).size;
  if (sizeBytes >= SIZE_LIMIT_BYTES) throw new Error(`a file of ${sizeBytes} bytes does not fit into a tar entry`);
  return sizeBytes;
}

async function* contentBlocks(entry: TarEntry & { type: "file" }, sizeBytes: number): AsyncGenerator<Buffer> {
  if ("bytes" in entry.content) {
    yield entry.content.bytes;
    return;
  }
  let readBytes = 0;
  for await (const chunk of createReadStream(entry.content.from) as AsyncIterable<Buffer>) {
    readBytes += chunk.length;
    yield chunk;
  }
  if (readBytes !== sizeBytes)
    throw new Error(`${entry.content.from} changed from ${sizeBytes} to ${readBytes} bytes while it was packed`);
}

/** "LENGTH key=value\n", whose length counts itself; empty when the value fits into the header. */
function paxRecord(key: string, value: string): string {
  if (Buffer.byteLength(value) <= NAME_LIMIT_BYTES) return "";
  const rest = ` ${key}=${value}\n`;
  let lengthBytes = Buffer.byteLength(rest);
  while (`${lengthBytes}`.length + Buffer.byteLength(rest) !== lengthBytes)
    lengthBytes = `${lengthBytes}`.length + Buffer.byteLength(rest);
  return `${lengthBytes}${rest}`;
}

interface Header {
  readonly type: keyof typeof TYPE_FLAGS;
  readonly path: string;
  readonly target: string;
  readonly mode: number;
  readonly sizeBytes: number;
}

function header({ type, path, target, mode, sizeBytes }: Header): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  const octal = (value: number, offset: number, digits: number): void => {
    block.write(value.toString(8).padStart(digits, "0"), offset);
  };
  block.write(path, 0, NAME_LIMIT_BYTES);
  octal(mode, 100, 7);
  octal(0, 108, 7); // owner
  octal(0, 116, 7); // group
  octal(sizeBytes, 124, 11);
  octal(0, 136, 11); // changed at
  block.fill(" ", 148, 156); // the checksum counts as spaces while it is computed
  block.write(TYPE_FLAGS[type], 156);
  block.write(target, 157, NAME_LIMIT_BYTES);
  block.write("ustar\u000000", 257);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  block.write("\u0000 ", 154);
  return block;
}

function padding(sizeBytes: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);
}
