// The node inside the machine that loses its power: its disks, the data on its volume, and what it says, a line each, which is all that is
// known of it afterwards.
import { execFileSync, spawn } from "node:child_process";
import { createHash, randomFillSync } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { MIB } from "../../integration/storage/storage-fixture.ts";
import type { MachineSettings } from "./machine-settings.ts";

/** On a disk of its own, as a node's: what agent and lvmd record. */
export const STATE = "/var/lib/power-cut";
/** Where the volumes of a story without LVM are: the other disk. */
export const VOLUMES = "/var/lib/power-cut-volumes";
export const RECORDS = join(STATE, "records");
/** Each effect is told here before and after, as it happens. */
export const TOLD = "/dev/ttyS0";
const BALLAST_MIB = 64;
const SCATTERED_BYTES = 4 * MIB;
/** Of ext4 itself. */
const LOST_AND_FOUND = "lost+found";

export const settings = JSON.parse(process.argv[2] ?? "") as MachineSettings;
export const say = (line: string): void => void writeSync(1, `${line}\n`);
export const sh = (script: string): string =>
  execFileSync("/bin/bash", ["-ec", script], {
    encoding: "utf8",
    env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: "1" },
  });

/** An ext4, made by the first boot; mounted at `path` with these options of the mount. */
export function openDisk(disk: string, path: string, options = "defaults"): void {
  if (settings.boot === 0) sh(`mkfs.ext4 -q ${disk}`);
  sh(`mkdir -p ${path}; mount -o ${options} ${disk} ${path}`);
}

/** For volumes and for STATE. "Direct": what the guest has sent to its disk is on it. Else the host has what a flush, or the guest's write-back, has brought there. */
export function attachDisks(): [string, string] {
  if (settings.disk === "Direct") return ["/dev/ubda", "/dev/ubdb"];
  if (settings.disk === "ReordersCache")
    sh("echo 10 >/proc/sys/vm/dirty_writeback_centisecs; echo 5 >/proc/sys/vm/dirty_expire_centisecs");
  sh(`losetup /dev/loop0 ${settings.directory}/data; losetup /dev/loop1 ${settings.directory}/state`);
  return ["/dev/loop0", "/dev/loop1"];
}

/** Every record that was acknowledged before a cut, and not said to be removed, has its checksum. */
export function verifyRecords(mountPath: string): void {
  const records = Object.entries(
    JSON.parse(readFileSync(join(settings.directory, "acknowledged.json"), "utf8")) as Record<string, string>,
  );
  for (const [name, sum] of records) {
    const path = join(mountPath, name);
    if (!existsSync(path)) throw new Error(`acknowledged record ${name} is gone`);
    if (checksum(readFileSync(path)) !== sum)
      throw new Error(`acknowledged record ${name} of ${statSync(path).size} bytes is corrupt`);
  }
  say(`verified ${records.length}`);
}

const checksum = (content: Buffer): string => createHash("sha1").update(content).digest("hex");

/** What has to move when it shrinks to so many bytes: ballast takes the place that is free below, so that these come to lie behind it. */
export function scatter(mountPath: string, files: number, shrunkBytes: number): void {
  for (const name of readdirSync(mountPath)) {
    if (name === LOST_AND_FOUND) continue;
    say(`gone ${name}`);
    rmSync(join(mountPath, name));
  }
  sh(
    `cd ${mountPath}; for n in $(seq ${Math.floor(shrunkBytes / MIB / BALLAST_MIB)}); do fallocate -l ${BALLAST_MIB}M ballast$n; done; sync -f .`,
  );
  const content = randomFillSync(Buffer.alloc(SCATTERED_BYTES));
  const sums = Array.from({ length: files }, (_, index) => {
    content.writeUInt32LE(index, 0);
    writeFileSync(join(mountPath, `s${index}`), content);
    return checksum(content);
  });
  sh(`cd ${mountPath}; sync -f .; rm -f ballast*`);
  for (const [index, sum] of sums.entries()) say(`acknowledged s${index} ${sum}`);
}

/** Its records are acknowledged by fsync; it ends with the power. */
export function startWriter(mountPath: string): void {
  const writer = spawn(process.execPath, [join(settings.directory, "writer.mjs"), mountPath, String(settings.boot)], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  writer.once("exit", (code) => fail(new Error(`the writer ended with ${code}`)));
}

/** A cut that has waited for what this boot has not come by comes now. */
export async function waitForTheCut(): Promise<void> {
  say("waiting");
  await new Promise(() => setInterval(() => undefined, 60_000));
}

/** The last boot's own end. */
export function end(): never {
  say("ended");
  process.exit(0);
}

export function fail(error: unknown): void {
  say(`failed ${String(error).replaceAll("\n", " ")}`);
  console.error(error);
  process.exit(1);
}
