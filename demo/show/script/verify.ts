// Reads every remaining file back from the disk and compares it with what was written. It reads only. The caller has unmounted, dropped the
// caches and mounted again, so that the disk answers and not the page cache.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { Manifest } from "../writers/writer.ts";

export interface Verification {
  readonly filesVerified: number;
  readonly bytesVerified: number;
  /** Files that are missing, unreadable, of another content, or of another writer. */
  readonly corruptFiles: number;
  /** One sentence for each of the first few. */
  readonly problems: readonly string[];
}

const PROBLEMS_KEPT_LIMIT = 20;
const READ_BYTES = 1 << 20;

export async function verifyFiles(directory: string, manifest: Manifest): Promise<Verification> {
  const problems = unexpectedFiles(await readdir(directory), manifest);
  let filesVerified = 0;
  let bytesVerified = 0;
  for (const [name, { bytes, sha256 }] of manifest) {
    const found = await sha256Of(join(directory, name)).catch((error: Error) => error);
    if (found === sha256) {
      filesVerified += 1;
      bytesVerified += bytes;
    } else {
      problems.push(`${name}: ${found instanceof Error ? found.message : `SHA-256 ${found} instead of ${sha256}`}`);
    }
  }
  return {
    filesVerified,
    bytesVerified,
    corruptFiles: problems.length,
    problems: problems.slice(0, PROBLEMS_KEPT_LIMIT),
  };
}

function unexpectedFiles(names: readonly string[], manifest: Manifest): string[] {
  return names
    .filter((name) => !manifest.has(name))
    .map((name) => `${name}: exists, but was not written or was deleted`);
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: READ_BYTES }), hash);
  return hash.digest("hex");
}

/** Makes the kernel forget what it has read; needs root. */
export async function dropCaches(): Promise<void> {
  await writeFile("/proc/sys/vm/drop_caches", "3");
}
