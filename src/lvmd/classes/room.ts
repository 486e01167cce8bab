// How many bytes one more volume can have. True rather than hopeful: what is promised here, LVM must be able to give. Pure.
import { GUARD_TAG } from "../../api/names.ts";
import type { ReportedGroup, ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass, ThinPoolClass } from "../settings/settings.ts";
import { type Columns, columnsOf } from "./columns.ts";

/** What a volume of this size takes of its group. */
export function takenBytes(sizeBytes: number, { all, data }: Columns): number {
  return Math.ceil((sizeBytes * all) / data);
}

/** What the next thick volume with these columns can have, less the class' spare. */
export function thickRoomBytes(group: ReportedGroup, spareBytes: number, columns: Columns): number {
  const { extentBytes } = group;
  const areaBytes = columns.apart
    ? nthLargest(group, columns.all) - extentBytes // each has an extent of metadata beside it
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
  // Where nobody can tell, too.
  if (!(writableBytes >= spareBytes)) return 0;
  return wholeExtents(promisableBytes(group, pool, thin) - spareBytes, group.extentBytes);
}

/**
 * What thin volumes may still promise, as TopoLVM reckons: the spare is not looked at. A snapshot that guards a shrink promises nobody
 * anything: what it may take was looked for in the pool, and others must be able to grow meanwhile.
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
