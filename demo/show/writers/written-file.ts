// One file of the writer: pseudo-random content that no filesystem can compress or deduplicate, hashed as it is written.
import { createCipheriv, createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";

export interface WrittenFile {
  readonly name: string;
  /** Appends that many bytes of the file's content. Rejects with the filesystem's own error. */
  append(bytes: number): Promise<void>;
  writtenBytes(): number;
  /** Closes it; the SHA-256 of all that was appended, in hex. */
  finish(): Promise<string>;
  /** Closes it, whatever state it is in. */
  abandon(): Promise<void>;
}

const ZEROS = Buffer.alloc(1 << 20);

/** Seed and number decide the content: AES-128 in counter mode, at some GB/s. */
export async function createWrittenFile(
  path: string,
  name: string,
  seed: number,
  number: number,
): Promise<WrittenFile> {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(seed, 0);
  key.writeUInt32BE(number, 4);
  const content = createCipheriv("aes-128-ctr", key, Buffer.alloc(16));
  const hash = createHash("sha256");
  const file = await open(path, "wx", 0o600);
  let writtenBytes = 0;
  return {
    name,
    append: async (bytes) => {
      const chunk = content.update(ZEROS.subarray(0, bytes));
      await writeWhole(file, chunk);
      hash.update(chunk);
      writtenBytes += bytes;
    },
    writtenBytes: () => writtenBytes,
    finish: async () => {
      await file.close();
      return hash.digest("hex");
    },
    abandon: () => file.close(),
  };
}

// A full filesystem takes a part of a write before it refuses the rest.
async function writeWhole(file: FileHandle, chunk: Buffer): Promise<void> {
  for (let offset = 0; offset < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, offset);
    offset += bytesWritten;
  }
}
