// The volume that a reduction is of: one of the classes' own, found by LVM's UUID, in a report that nothing of a former lvmd can make untrue.
import { Refusal } from "../../csi/refusal.ts";
import { type ClassState, classState } from "../classes/class-state.ts";
import { kernelPathOf } from "../device-node.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { findLeftoverClearing, findLeftoverReduce } from "./leftover-commands.ts";
import { isUnusable, latestReport, type VolumeHost } from "./volume-host.ts";

export interface Found {
  readonly state: ClassState;
  readonly volume: ReportedVolume;
}

export async function groupOf(host: VolumeHost, volumeUUID: string): Promise<string | undefined> {
  await latestReport(host);
  return (find(host, volumeUUID) ?? (await findFresh(host, volumeUUID)))?.state.group.name;
}

/** By a report that was begun now; what a former lvmd has left running would not be in it. */
export async function findFresh(host: VolumeHost, volumeUUID: string): Promise<Found | undefined> {
  const known = find(host, volumeUUID);
  const leftover = known && (await findLeftover(known));
  if (leftover !== undefined) throw new LvmError("Hung", `this has been begun before and has not ended: ${leftover}`);
  await host.reports.fresh();
  return find(host, volumeUUID);
}

/** Of an active device the number stays its own for as long as something is written to it. */
async function findLeftover({ state, volume }: Found): Promise<string | undefined> {
  const kernelPath = volume.device && (await kernelPathOf(volume.device));
  return (
    (await findLeftoverReduce(state.group.name, volume.name)) ??
    (kernelPath === undefined ? undefined : findLeftoverClearing(kernelPath))
  );
}

function find({ settings, reports }: VolumeHost, volumeUUID: string): Found | undefined {
  for (const deviceClass of settings().deviceClasses) {
    const state = classState(reports.latest(), deviceClass);
    if (isUnusable(state)) continue;
    for (const volume of state.group.volumes.values())
      if (volume.uuid === volumeUUID && volume.pool === (state.thin?.pool.name ?? "")) return { state, volume };
  }
  return undefined;
}

export function noVolume(host: VolumeHost, volumeUUID: string): Refusal {
  const place = placeOf(host, volumeUUID);
  if (place === undefined) return new Refusal("NOT_FOUND", `no device class has a volume with the UUID ${volumeUUID}`);
  return new Refusal("FAILED_PRECONDITION", `volume ${place} is of no device class: point its class at it`);
}

/** Of a volume that no class points at. */
export function placeOf({ reports }: VolumeHost, volumeUUID: string): string | undefined {
  for (const group of reports.latest()?.values() ?? [])
    for (const { name, uuid } of group.volumes.values()) if (uuid === volumeUUID) return `${group.name}/${name}`;
  return undefined;
}
