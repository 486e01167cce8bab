// A device class as the last report shows it: sizes, room, its thin pool, or why it cannot be used now. Pure.

import { GUARD_TAG } from "../../contracts/names.ts";
import type { Report, ReportedGroup, ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass, ThinPoolClass } from "../settings/settings.ts";

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
function isThinPool({ attr }: ReportedVolume): boolean {
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

// How many bytes one more volume can have: LVM must be able to give what is promised here. Pure.

/** What a volume of this size takes of its group. */
export function takenBytes(sizeBytes: number, { all, data }: Columns): number {
  return Math.ceil((sizeBytes * all) / data);
}

/** What the next thick volume with these columns can have, less the class' spare. */
export function thickRoomBytes(group: ReportedGroup, spareBytes: number, columns: Columns): number {
  const { extentBytes } = group;
  const areaBytes = columns.apart
    ? nthLargest(group, columns.all) - extentBytes // each has an extent of metadata next to it
    : sideBySideBytes(group, columns.all);
  const leftBytes = ((group.freeBytes - spareBytes) * columns.data) / columns.all;
  return wholeExtents(Math.min(areaBytes * columns.data, leftBytes), extentBytes * columns.data);
}

/** What thin volumes may still promise; nothing where the pool has less than the spare left to write. */
export function thinRoomBytes(
  group: ReportedGroup,
  pool: ReportedVolume,
  thin: ThinPoolClass,
  spareBytes: number,
): number {
  const writableBytes = pool.sizeBytes * (1 - pool.dataPercent / 100);
  // NaN, too: LVM does not know its fill.
  if (!(writableBytes >= spareBytes)) return 0;
  return wholeExtents(promisableBytes(group, pool, thin) - spareBytes, group.extentBytes);
}

/**
 * What thin volumes may still promise, as TopoLVM reckons: the spare does not count. A snapshot that guards a shrink promises nothing: its
 * room was found in the pool before, and other volumes must be able to grow in that time.
 */
export function promisableBytes(group: ReportedGroup, pool: ReportedVolume, thin: ThinPoolClass): number {
  let promisedBytes = 0;
  for (const volume of group.volumes.values())
    if (volume.pool === pool.name && !isGuard(volume)) promisedBytes += volume.sizeBytes;
  return Math.max(0, Math.floor(thin.overprovisionRatio * pool.sizeBytes) - promisedBytes);
}

/** What is guarded may have got its snapshot's tag by a merge. */
function isGuard({ name, tags }: ReportedVolume): boolean {
  return tags.some((tag) => tag.startsWith(`${GUARD_TAG}=`) && tag !== `${GUARD_TAG}=${name}`);
}

/** Sizes of a class' volumes are whole multiples of this. */
export function grainBytes(group: ReportedGroup, deviceClass: DeviceClass): number {
  return group.extentBytes * (deviceClass.thinPool === undefined ? columnsOf(deviceClass, undefined).data : 1);
}

export function roundUp(bytes: number, grain: number): number {
  return Math.ceil(bytes / grain) * grain;
}

function wholeExtents(bytes: number, grain: number): number {
  return Math.max(0, Math.floor(bytes / grain) * grain);
}

function nthLargest({ devices }: ReportedGroup, count: number): number {
  const largestFirst = devices.map(({ freeBytes }) => freeBytes).sort((one, other) => other - one);
  return largestFirst[count - 1] ?? 0;
}

/** Always from the devices with most room, as long as there are enough of them. */
function sideBySideBytes({ devices, freeBytes }: ReportedGroup, count: number): number {
  if (count === 1) return freeBytes;
  let left = devices.map((device) => device.freeBytes);
  let areaBytes = 0;
  for (;;) {
    left = left.filter((bytes) => bytes > 0).sort((one, other) => other - one);
    const step = left[count - 1];
    if (step === undefined) return areaBytes;
    areaBytes += step;
    left = left.map((bytes, index) => (index < count ? bytes - step : bytes));
  }
}

/** How lvcreate's options lay a volume over devices. */
export interface Columns {
  /** Areas of equal size, each on a device of its own. */
  readonly all: number;
  /** Those of them that hold data; the others are copies and parity. */
  readonly data: number;
  /** Each area stays apart from the others' devices permanently (RAID, mirror); of stripes only parallel ones do. */
  readonly apart: boolean;
}

export const LINEAR: Columns = { all: 1, data: 1, apart: false };

/** Of a class' own options, or of an option class', which replace them. */
export function columnsOf(
  { stripe, lvcreateOptions }: Pick<DeviceClass, "stripe" | "lvcreateOptions">,
  options: readonly string[] | undefined,
): Columns {
  const chosen = options ?? lvcreateOptions;
  const stripes = countOption(chosen, "i", "stripes") ?? (options === undefined ? stripe : undefined);
  const mirrors = countOption(chosen, "m", "mirrors");
  const type = option(chosen, undefined, "type") ?? typeOf(stripes ?? 1, mirrors ?? 0);
  return columnsOfType(type, stripes, mirrors);
}

/** What is not said is lvmraid(7)'s default. */
function columnsOfType(type: string, stripes: number | undefined, mirrors: number | undefined): Columns {
  if (/^raid[45]/.test(type)) return parity(stripes ?? 2, 1);
  if (type.startsWith("raid6")) return parity(stripes ?? 3, 2);
  if (type.startsWith("raid10")) return copies(stripes ?? 2, mirrors ?? 1);
  if (type === "raid1" || type === "mirror") return copies(1, mirrors ?? 1);
  if (type.startsWith("raid0")) return { all: stripes ?? 2, data: stripes ?? 2, apart: true };
  return stripes === undefined || stripes === 1 ? LINEAR : { all: stripes, data: stripes, apart: false };
}

function typeOf(stripes: number, mirrors: number): string {
  if (mirrors === 0) return "striped";
  return stripes > 1 ? "raid10" : "raid1";
}

function parity(data: number, more: number): Columns {
  return { all: data + more, data, apart: true };
}

function copies(data: number, mirrors: number): Columns {
  return { all: data * (mirrors + 1), data, apart: mirrors > 0 };
}

function countOption(options: readonly string[], short: string, long: string): number | undefined {
  const text = option(options, short, long);
  const count = Number(text);
  return text !== undefined && Number.isInteger(count) && count >= 0 ? count : undefined;
}

/** As getopt reads them: "--type raid1", "--type=raid1", "-m 1", "-m1"; the last one counts. */
function option(options: readonly string[], short: string | undefined, long: string): string | undefined {
  let found: string | undefined;
  options.forEach((text, index) => {
    if (text === `--${long}` || text === `-${short}`) found = options[index + 1];
    else if (text.startsWith(`--${long}=`)) found = text.slice(long.length + 3);
    else if (short !== undefined && text.startsWith(`-${short}`) && !text.startsWith("--")) found = text.slice(2);
  });
  return found;
}
