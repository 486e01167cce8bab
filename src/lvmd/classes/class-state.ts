// A device class as the last report shows it: sizes, room, its thin pool, or why it cannot be used now. Pure.
import type { Report, ReportedGroup, ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass, ThinPoolClass } from "../settings/settings.ts";
import { columnsOf } from "./columns.ts";
import { grainBytes, thickRoomBytes, thinRoomBytes } from "./room.ts";

export interface ClassState {
  readonly deviceClass: DeviceClass;
  /** What volumes could have in all. */
  readonly sizeBytes: number;
  /** What one more volume can have; the spare is not in it. */
  readonly freeBytes: number;
  readonly grainBytes: number;
  readonly group: ReportedGroup;
  readonly thin: { readonly settings: ThinPoolClass; readonly pool: ReportedVolume } | undefined;
}

export interface UnusableClass {
  readonly deviceClass: DeviceClass;
  readonly problem: string;
}

export function classState(report: Report | undefined, deviceClass: DeviceClass): ClassState | UnusableClass {
  const { volumeGroup, thinPool, spareBytes } = deviceClass;
  if (report === undefined) return { deviceClass, problem: "LVM has not been heard yet" };
  const group = report.get(volumeGroup);
  if (group === undefined) return { deviceClass, problem: `there is no volume group ${volumeGroup}` };
  const common = { deviceClass, group, grainBytes: grainBytes(group, deviceClass) };
  if (thinPool === undefined) {
    const columns = columnsOf(deviceClass, undefined);
    return {
      ...common,
      sizeBytes: Math.floor((group.sizeBytes * columns.data) / columns.all),
      freeBytes: thickRoomBytes(group, spareBytes, columns),
      thin: undefined,
    };
  }
  const pool = group.volumes.get(thinPool.name);
  if (pool === undefined || !isThinPool(pool))
    return { deviceClass, problem: `there is no thin pool ${thinPool.name} in volume group ${volumeGroup}` };
  return {
    ...common,
    sizeBytes: Math.floor(thinPool.overprovisionRatio * pool.sizeBytes),
    freeBytes: thinRoomBytes(group, pool, thinPool, spareBytes),
    thin: { settings: thinPool, pool },
  };
}

/** lvs(8): the first character of lv_attr is the kind of volume. */
export function isThinPool({ attr }: ReportedVolume): boolean {
  return attr.startsWith("t");
}

/** The class' own volumes: of its pool, or those of its group that are in none. */
export function volumesOf({ group, thin }: ClassState): ReportedVolume[] {
  return [...group.volumes.values()].filter((volume) => isOfClass(volume, thin?.pool.name));
}

export function findVolume({ group, thin }: ClassState, name: string): ReportedVolume | undefined {
  const volume = group.volumes.get(name);
  return volume !== undefined && isOfClass(volume, thin?.pool.name) ? volume : undefined;
}

function isOfClass(volume: ReportedVolume, pool: string | undefined): boolean {
  return pool === undefined ? volume.pool === "" && !isThinPool(volume) : volume.pool === pool;
}
