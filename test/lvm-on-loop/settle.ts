// Makes devices agree with LVM's metadata: one file and one loop device of the right size for each volume, and its link
// /dev/GROUP/NAME. What is right already is left alone, so that it may be done again after any interruption.
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { attachedLoops, attachLoop, detachLoop, refreshLoop } from "./loop-devices.ts";
import type { LoopGroundPlaces } from "./places.ts";
import { runLvm } from "./run-lvm.ts";

export interface NamedVolume {
  readonly group: string;
  readonly name: string;
  readonly uuid: string;
}

interface SizedVolume extends NamedVolume {
  readonly sizeBytes: number;
}

/** One of them for each group. */
interface Report {
  readonly vg: readonly { readonly vg_name: string }[];
  readonly lv: readonly { readonly lv_name: string; readonly lv_uuid: string; readonly lv_size: string }[];
}

/** The only report in which a group without volumes stands; of each part as little as can be. */
const REPORT = [
  ...["fullreport", "--reportformat", "json", "--units", "b", "--nosuffix", "--configreport", "vg", "-o", "vg_name"],
  ...["--configreport", "lv", "-o", "lv_name,lv_uuid,lv_size", "--configreport", "pv", "-o", "pv_name"],
  ...["--configreport", "seg", "-o", "lv_uuid", "--configreport", "pvseg", "-o", "pv_name"],
];

/** Throws when LVM does not say what there is: then nothing is touched. */
export function settle(places: LoopGroundPlaces): void {
  const devices = attachedLoops();
  const volumes = readReports(places).flatMap(({ vg, lv }) =>
    vg.flatMap(({ vg_name: group }) => {
      const own = lv.map((row) => ({ group, name: row.lv_name, uuid: row.lv_uuid, sizeBytes: Number(row.lv_size) }));
      settleGroup(places, group, own, devices);
      return own;
    }),
  );
  writeFileSync(`${places.names}.new`, JSON.stringify(volumes));
  renameSync(`${places.names}.new`, places.names);
  rmSync(places.unsettled, { force: true });
}

function settleGroup(
  places: LoopGroundPlaces,
  group: string,
  volumes: readonly SizedVolume[],
  devices: ReadonlyMap<string, string>,
): void {
  mkdirSync(join(places.volumes, group), { recursive: true });
  forgetOthers(places, group, volumes, devices);
  const settled = volumes.map((volume) => settleVolume(fileOf(places, volume), volume.sizeBytes, devices));
  linkAll(group, new Map(volumes.map(({ name }, index) => [name, settled[index] ?? ""])));
}

export function fileOf({ volumes }: LoopGroundPlaces, { group, uuid }: NamedVolume): string {
  return join(volumes, group, uuid);
}

/** As the last settling found them. */
export function namedVolumes({ names }: LoopGroundPlaces): NamedVolume[] {
  return existsSync(names) ? (JSON.parse(readFileSync(names, "utf8")) as NamedVolume[]) : [];
}

function readReports(places: LoopGroundPlaces): Report[] {
  const { status, stdout, stderr } = runLvm(places, REPORT);
  if (status !== 0) throw new Error(`lvm ${REPORT.join(" ")} ended with ${status}: ${stderr.trim()}`);
  return (JSON.parse(stdout) as { report: Report[] }).report;
}

/** Of a group that LVM does not find just now, everything stays. */
function forgetOthers(
  places: LoopGroundPlaces,
  group: string,
  volumes: readonly NamedVolume[],
  devices: ReadonlyMap<string, string>,
): void {
  for (const uuid of readdirSync(join(places.volumes, group))) {
    if (volumes.some((volume) => volume.uuid === uuid)) continue;
    const file = join(places.volumes, group, uuid);
    const device = devices.get(file);
    if (device !== undefined) detachLoop(device);
    rmSync(file);
  }
}

/** Its device. */
function settleVolume(file: string, sizeBytes: number, devices: ReadonlyMap<string, string>): string {
  const isThere = existsSync(file);
  if (!isThere) writeFileSync(file, "");
  const device = devices.get(file);
  const isRight = isThere && statSync(file).size === sizeBytes;
  if (!isRight) truncateSync(file, sizeBytes);
  if (device === undefined) return attachLoop(file);
  // The file may have got its size in a settling that was interrupted before its device had it.
  if (!isRight || deviceBytes(device) !== sizeBytes) refreshLoop(device);
  return device;
}

const SECTOR_BYTES = 512;

function deviceBytes(device: string): number {
  return Number(readFileSync(`/sys/block/${device.replace("/dev/", "")}/size`, "utf8")) * SECTOR_BYTES;
}

function linkAll(group: string, devices: ReadonlyMap<string, string>): void {
  const directory = join("/dev", group);
  mkdirSync(directory, { recursive: true });
  for (const name of readdirSync(directory)) if (!devices.has(name)) rmSync(join(directory, name));
  for (const [name, device] of devices) {
    const path = join(directory, name);
    if (existsSync(path) && readlinkSync(path) === device) continue;
    rmSync(path, { force: true });
    symlinkSync(device, path);
  }
}
