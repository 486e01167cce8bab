// An unaware writer: files of random content at a steady rate, each one's checksum written down elsewhere once the file is
// closed. It never makes up for lost time: on a machine that had no time for it, it is slower and not faster afterwards. Arguments:
// directory, manifest file, MB/s, files kept (the oldest is deleted beyond that), file name prefix, "synced" for an fsync of each file.
// Ends with exit code 3 at the first failing write, after naming it; runs until it is killed.
import { createHash, randomFillSync } from "node:crypto";
import { appendFileSync, closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const [directory, manifest, rate, keep, prefix = "f", synced] = process.argv.slice(2);
const FILE_BYTES = 4 << 20;
const content = Buffer.alloc(FILE_BYTES);
randomFillSync(content);
const FILE_MS = FILE_BYTES / (Number(rate) * 1000);
let dueMs = performance.now();
for (let index = 0; ; index += 1) {
  content.writeUInt32LE(index, (index * 4096) % FILE_BYTES);
  const name = `${prefix}${index}`;
  try {
    const file = openSync(join(directory, name), "w");
    writeSync(file, content);
    if (synced === "synced") fsyncSync(file);
    closeSync(file);
  } catch (error) {
    process.stdout.write(`${error.code}\n`);
    process.exit(3);
  }
  appendFileSync(manifest, `${name} ${createHash("sha1").update(content).digest("hex")}\n`);
  if (index >= Number(keep)) rmSync(join(directory, `${prefix}${index - Number(keep)}`), { force: true });
  dueMs = Math.max(dueMs + FILE_MS, performance.now());
  await pause(dueMs - performance.now());
}
