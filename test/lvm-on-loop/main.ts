// Stands before lvm(8) on a machine without device-mapper: `... lvm-on-loop.mjs DIRECTORY [lvm] COMMAND...`. Runs the real command on
// real metadata, and has a loop device for each volume before it ends as lvm did. To be run under flock(1): one at a time.
import { existsSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { attachedLoops, isHeld } from "./loop-devices.ts";
import { type LoopGroundPlaces, loopGroundPlaces } from "./places.ts";
import { attachGroups, type FinishedLvm, runLvm } from "./run-lvm.ts";
import { fileOf, namedVolumes, settle } from "./settle.ts";
import { tellDevices } from "./tell-devices.ts";

const READING = new Set([
  "lvs",
  "vgs",
  "pvs",
  "fullreport",
  "version",
  "lvmconfig",
  "dumpconfig",
  "formats",
  "segtypes",
]);
/** ECMD_FAILED of LVM. */
const FAILED = 5;

function main([directory = "", ...words]: readonly string[]): FinishedLvm {
  const places = loopGroundPlaces(directory);
  const command = basename(words[0] ?? "") === "lvm" ? words.slice(1) : words;
  if (attachGroups(places) || existsSync(places.unsettled)) settle(places);
  if (READING.has(command[0] ?? "")) {
    const finished = runLvm(places, command);
    return { ...finished, stdout: tellDevices(places, finished.stdout) };
  }
  const held = command[0] === "lvremove" ? heldVolume(places, command) : undefined;
  if (held !== undefined) return { status: FAILED, stdout: "", stderr: `  Logical volume ${held} in use.\n` };
  writeFileSync(places.unsettled, "");
  const finished = runLvm(places, command);
  settle(places);
  return finished;
}

/** With device-mapper LVM refuses to remove it. */
function heldVolume(places: LoopGroundPlaces, command: readonly string[]): string | undefined {
  const devices = attachedLoops();
  const named = namedVolumes(places).filter(({ group, name }) =>
    command.some((word) => word === `${group}/${name}` || word === `/dev/${group}/${name}`),
  );
  const held = named.find((volume) => {
    const device = devices.get(fileOf(places, volume));
    return device !== undefined && isHeld(device);
  });
  return held && `${held.group}/${held.name}`;
}

const { status, stdout, stderr } = main(process.argv.slice(2));
process.stderr.write(stderr);
process.stdout.write(stdout);
process.exitCode = status ?? FAILED;
