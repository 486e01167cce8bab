// LVM's JSON report as it would be if the volumes were active: without device-mapper LVM knows of no devices, so they are told
// from the loop devices. Everything else in the report is LVM's.
import { attachedLoops, deviceNumber, isHeld } from "./loop-devices.ts";
import type { LoopGroundPlaces } from "./places.ts";
import { fileOf, type NamedVolume, namedVolumes } from "./settle.ts";

type Row = Record<string, string>;

/** `text` as it is where it is no report in JSON. */
export function tellDevices(places: LoopGroundPlaces, text: string): string {
  if (!text.trimStart().startsWith("{")) return text;
  const document = JSON.parse(text) as { report: Readonly<Record<string, Row[]>>[] };
  const volumes = namedVolumes(places);
  const devices = attachedLoops();
  for (const row of document.report.flatMap((report) => Object.values(report).flat())) {
    const volume = volumes.find((candidate) => isOf(row, candidate));
    const device = volume && devices.get(fileOf(places, volume));
    if (device !== undefined) tellDevice(row, device);
  }
  return `${JSON.stringify(document, undefined, 1)}\n`;
}

function isOf(row: Row, { group, name, uuid }: NamedVolume): boolean {
  const { lv_uuid, lv_full_name, lv_path, lv_name, vg_name = group } = row;
  if (lv_uuid !== undefined) return lv_uuid === uuid;
  if (lv_full_name !== undefined) return lv_full_name === `${group}/${name}`;
  if (lv_path !== undefined) return lv_path === `/dev/${group}/${name}`;
  return lv_name === name && vg_name === group;
}

/** Fields and the letters of lv_attr: lvs(8). */
function tellDevice(row: Row, device: string): void {
  const { major, minor } = deviceNumber(device);
  const told: Row = {
    lv_kernel_major: `${major}`,
    lv_kernel_minor: `${minor}`,
    lv_active: "active",
    lv_active_locally: "active locally",
  };
  for (const field of Object.keys(told)) if (row[field] !== undefined) row[field] = told[field] ?? "";
  const attr = row["lv_attr"];
  if (attr !== undefined) row["lv_attr"] = `${attr.slice(0, 4)}a${isHeld(device) ? "o" : "-"}${attr.slice(6)}`;
}
