// The node inside the machine that loses its power: its disks, its lvmd and the agent's storage, and what it says, a line each, which is all
// that is known of it afterwards.
import { execFileSync } from "node:child_process";
import { createHash, randomFillSync } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { LvmVolume } from "../../../src/agent/storage/storage.ts";
import type { FsType } from "../../../src/api/filesystem-layout.ts";
import { readConfig } from "../../../src/lvmd/config.ts";
import { startLvmd } from "../../../src/lvmd/start-lvmd.ts";
import { createFaultEffects } from "../../../src/process/fault-effects.ts";
import { createLogger } from "../../../src/process/log.ts";
import { type LvmStorageUnderTest, openLvmStorage } from "../../integration/storage/lvm-fixture.ts";
import { MIB } from "../../integration/storage/storage-fixture.ts";
import type { MachineSettings } from "./machine-settings.ts";

export const GROUP = "a";
/** On a disk of its own, as a node's: what agent and lvmd record. */
export const STATE = "/var/lib/power-cut";
export const RECORDS = join(STATE, "records");
const POOL_MIB = 1900;
const SOCKET = "/run/lvmd.sock";
/** Each effect is told here before and after, as it happens. */
const TOLD = "/dev/ttyS0";
const BALLAST_MIB = 64;
const SCATTERED_BYTES = 4 * MIB;
/** Of ext4 itself. */
const LOST_AND_FOUND = "lost+found";

export const settings = JSON.parse(process.argv[2] ?? "") as MachineSettings;
/** Of the one volume, whose name is its UID. */
export const device = `/dev/${GROUP}/${settings.volumeUID}`;

export function volumeOf(fsType: FsType): LvmVolume {
  const { volumeUID, deviceClass } = settings;
  const identity = { handle: `fs-${volumeUID}`, volumeUID, fsid: volumeUID, fsType };
  return { backend: "lvm", ...identity, deviceClass, volumeID: volumeUID };
}

export const say = (line: string): void => void writeSync(1, `${line}\n`);
export const sh = (script: string): string =>
  execFileSync("/bin/bash", ["-ec", script], {
    encoding: "utf8",
    env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: "1" },
  });

/** Made by the first boot; mounted, and with whatever volumes `activated` is to be of, by all others. */
export function openDisks(activated: boolean): void {
  const [data, state] = attachDisks();
  if (settings.boot > 0) {
    sh(`mkdir -p ${STATE}; mount ${state} ${STATE}`);
    if (activated) sh(`vgchange -qq -ay ${GROUP}`);
    return;
  }
  sh(`mkfs.ext4 -q ${state}; mkdir -p ${STATE}; mount ${state} ${STATE}; vgcreate -qq ${GROUP} ${data}`);
  if (settings.deviceClass === "thin") sh(`lvcreate -qq -y -T ${GROUP}/pool -L ${POOL_MIB}m`);
}

/** Made by the first boot; mounted at STATE. For what needs no LVM. */
export function openStateDisk(): void {
  const [, state] = attachDisks();
  if (settings.boot === 0) sh(`mkfs.ext4 -q ${state}`);
  sh(`mkdir -p ${STATE}; mount ${state} ${STATE}`);
}

/** "Direct": what the guest has sent to its disk is on it. Else the host has what a flush, or the guest's write-back, has brought there. */
function attachDisks(): [string, string] {
  if (settings.disk === "Direct") return ["/dev/ubda", "/dev/ubdb"];
  if (settings.disk === "ReordersCache")
    sh("echo 10 >/proc/sys/vm/dirty_writeback_centisecs; echo 5 >/proc/sys/vm/dirty_expire_centisecs");
  sh(`losetup /dev/loop0 ${settings.directory}/data; losetup /dev/loop1 ${settings.directory}/state`);
  return ["/dev/loop0", "/dev/loop1"];
}

export function makeVolume(sizeBytes: number): void {
  const where = settings.deviceClass === "thin" ? `-V ${sizeBytes}b -T ${GROUP}/pool` : `-L ${sizeBytes}b ${GROUP}`;
  sh(`lvcreate -qq -y -n ${settings.volumeUID} --addtag tidemark.dev/volume-uid=${settings.volumeUID} ${where}`);
}

export function volumeBytes(): number {
  return Number(sh(`lvs --noheadings --units b --nosuffix -o lv_size ${GROUP}/${settings.volumeUID}`));
}

/** Null: there is none. */
export function recordOf(what: "reduction" | "unmounted-shrink"): { readonly phase?: string } | null {
  const path = join(RECORDS, `${settings.volumeUID}.${what}.json`);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as { phase?: string }) : null;
}

export async function startLvmdAndStorage(): Promise<LvmStorageUnderTest> {
  const classes = [
    `- { name: thick, volume-group: ${GROUP}, default: true, spare-gb: 0 }`,
    ...(settings.deviceClass === "thin"
      ? [
          `- { name: thin, volume-group: ${GROUP}, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }`,
        ]
      : []),
  ];
  const file = "/run/lvmd.yaml";
  writeFileSync(
    file,
    `socket-name: ${SOCKET}\nlvm-command-prefix: [/sbin/lvm]\ndevice-classes:\n${classes.join("\n")}\n`,
  );
  const flags = [
    "--config",
    file,
    "--state-directory",
    join(STATE, "lvmd"),
    "--http-host",
    "127.0.0.1",
    "--http-port",
    "0",
  ];
  await startLvmd(readConfig(flags, { TIDEMARK_EFFECT_LOG: TOLD }), createLogger("lvmd", "error"));
  return openLvmStorage(STATE, SOCKET, createFaultEffects([], TOLD));
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
  sh(`cd ${mountPath}; sync -f .; rm ballast*`);
  for (const [index, sum] of sums.entries()) say(`acknowledged s${index} ${sum}`);
}

/** Until the power goes. */
export async function waitForTheCut(): Promise<void> {
  await new Promise(() => setInterval(() => undefined, 60_000));
}

/** The last boot's own end: nothing is mounted, and nothing is left of the volume. */
export async function removeAndEnd({ storage, lvm }: LvmStorageUnderTest, volume: LvmVolume): Promise<void> {
  await storage.remove(volume);
  lvm.stop();
  say("ended");
  process.exit(0);
}

export function fail(error: unknown): void {
  say(`failed ${String(error).replaceAll("\n", " ")}`);
  console.error(error);
  process.exit(1);
}
