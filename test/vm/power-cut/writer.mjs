// A writer that says of each record when fsync has acknowledged it ("acknowledged NAME SHA1"), and before it removes one ("gone NAME").
// Arguments: the directory, a number that no earlier writer had.
import { createHash, randomFillSync } from "node:crypto";
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const [directory, number] = process.argv.slice(2);
const RECORD_BYTES = 256 << 10;
const KEPT = 40;
const PAUSE_MS = 15;
const content = Buffer.alloc(RECORD_BYTES);
randomFillSync(content);
const nameOf = (index) => `w${number}-${index}`;
for (let index = 0; ; index += 1) {
  content.writeUInt32LE(index, (index * 4096) % RECORD_BYTES);
  const file = openSync(join(directory, nameOf(index)), "w");
  writeSync(file, content);
  fsyncSync(file);
  closeSync(file);
  writeSync(1, `acknowledged ${nameOf(index)} ${createHash("sha1").update(content).digest("hex")}\n`);
  if (index >= KEPT) {
    writeSync(1, `gone ${nameOf(index - KEPT)}\n`);
    rmSync(join(directory, nameOf(index - KEPT)));
  }
  await pause(PAUSE_MS);
}
