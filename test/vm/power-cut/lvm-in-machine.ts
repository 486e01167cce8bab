// LVM and lvmd of the node inside the machine that loses its power, and the one volume that lives on them.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LvmVolume } from "../../../src/agent/storage/storage.ts";
import type { FsType } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { readConfig } from "../../../src/lvmd/config.ts";
import { startLvmd } from "../../../src/lvmd/start-lvmd.ts";
import { createFaultEffects } from "../../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { type LvmStorageUnderTest, openLvmStorage } from "../../integration/storage/lvm-fixture.ts";
import { attachDisks, end, openDisk, RECORDS, STATE, say, settings, sh, TOLD } from "./node-in-machine.ts";

export const GROUP = "a";
const POOL_MIB = 1900;
const SOCKET = "/run/lvmd.sock";

/** A life on LVM has one. */
const deviceClass = settings.deviceClass ?? "thick";
/** Of the one volume, whose name is its UID. */
export const device = `/dev/${GROUP}/${settings.volumeUID}`;

export function volumeOf(fsType: FsType): LvmVolume {
  const { volumeUID } = settings;
  const identity = { handle: `fs-${volumeUID}`, volumeUID, fsid: volumeUID, fsType };
  return { backend: "lvm", ...identity, deviceClass, volumeID: volumeUID };
}

/** Made by the first boot; mounted, and with whatever volumes `activated` is to be of, by all others. */
export function openDisks(activated: boolean): void {
  const [data, state] = attachDisks();
  openDisk(state, STATE);
  if (settings.boot > 0) {
    if (activated) activateAsAtBoot();
    return;
  }
  sh(`vgcreate -qq ${GROUP} ${data}`);
  if (deviceClass === "thin") sh(`lvcreate -qq -y -T ${GROUP}/pool -L ${POOL_MIB}m`);
}

/** A volume that cannot be activated ends no boot: whoever needs it meets that. What LVM and pool say of it is noted with the cut. */
function activateAsAtBoot(): void {
  const said = sh(`vgchange -qq -ay ${GROUP} 2>&1 || true`).trim();
  if (said === "") return;
  const volumes = sh(`lvs -a --noheadings --separator : -o lv_name,lv_active,thin_id,transaction_id,lv_tags ${GROUP}`);
  const lines = volumes.split("\n").map((line) => line.trim());
  say(`behind ${[said, ...lines].join("; ").replaceAll("\n", " ")}`);
}

export function makeVolume(sizeBytes: number): void {
  const where = deviceClass === "thin" ? `-V ${sizeBytes}b -T ${GROUP}/pool` : `-L ${sizeBytes}b ${GROUP}`;
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
    ...(deviceClass === "thin"
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

/** The last boot's own end: nothing is mounted, and nothing is left of the volume. */
export async function removeAndEnd({ storage, lvm }: LvmStorageUnderTest, volume: LvmVolume): Promise<void> {
  await storage.remove(volume);
  lvm.stop();
  end();
}
