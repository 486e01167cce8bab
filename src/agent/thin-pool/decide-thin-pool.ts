// Whether a thin pool must grow, and to what. Pure. Its data and its metadata are two volumes of one group: either one that is full
// stops every write in the pool, so each grows by its own ratio; metadata first, since a little of it goes a long way.
import type { HoldReason, ThinPoolReason } from "../../api/reasons.ts";
import { formatBytes, MIB } from "../../units/quantity.ts";
import { formatPercent } from "../../units/ratio.ts";

/** One thin pool as lvmd tells of it. */
export interface ThinPoolFacts {
  readonly deviceClass: string;
  readonly sizeBytes: number;
  readonly metadataSizeBytes: number;
  /** 0..1, both; anything else: nobody knows. */
  readonly dataUsedRatio: number;
  readonly metadataUsedRatio: number;
  /** What its volume group has left, less the class' spare. */
  readonly groupFreeBytes: number;
  /** Sizes are whole multiples. */
  readonly grainBytes: number;
}

export interface ThinPoolGrowth {
  /** The ClusterVolumePolicy that says so. */
  readonly policy: string;
  readonly suspended: boolean;
  /** 0..1 */
  readonly extendAtRatio: number;
  readonly by: { readonly kind: "ratio"; readonly ratio: number } | { readonly kind: "bytes"; readonly bytes: number };
  readonly maxBytes: number | undefined;
}

export type ThinPoolPlan =
  | {
      readonly kind: "extend";
      /** Both are at least what they are now. */
      readonly sizeBytes: number;
      readonly metadataSizeBytes: number;
      readonly message: string;
    }
  | { readonly kind: "hold"; readonly reason: ThinPoolHold; readonly message: string };

export type ThinPoolHold = Extract<HoldReason, "WithinBounds" | "PolicySuspended"> | ThinPoolHoldReason;
type ThinPoolHoldReason = Extract<ThinPoolReason, "ThinPoolFull" | "ThinPoolUnknown">;

/**
 * LVM makes no larger metadata volume (lib/config/defaults.h, DEFAULT_THIN_POOL_MAX_METADATA_SIZE: 15.81 GiB); the kernel would use a
 * little more (drivers/md/dm-thin-metadata.h, THIN_METADATA_MAX_SECTORS).
 */
export const METADATA_MAX_BYTES = 255 * (1 << 14) * 4096 - 128 * MIB;

/** LVM keeps a second volume as large as the largest metadata of the group, to repair them in. */
const METADATA_COPIES = 2;

export function decideThinPool(pool: ThinPoolFacts, growth: ThinPoolGrowth): ThinPoolPlan {
  if (!isKnown(pool)) return { kind: "hold", reason: "ThinPoolUnknown", message: describeUnknown(pool) };
  const isDataShort = pool.dataUsedRatio >= growth.extendAtRatio;
  const isMetadataShort = pool.metadataUsedRatio >= growth.extendAtRatio;
  const use = describeUse(pool);
  if (!isDataShort && !isMetadataShort) return { kind: "hold", reason: "WithinBounds", message: use };
  const why = `${use}; ${growth.policy} extends it at ${formatPercent(growth.extendAtRatio)}`;
  if (growth.suspended) return { kind: "hold", reason: "PolicySuspended", message: `${why}, but is suspended` };
  const metadataBytes = isMetadataShort ? metadataGrowth(pool, growth) : 0;
  const dataBytes = isDataShort ? dataGrowth(pool, growth, pool.groupFreeBytes - METADATA_COPIES * metadataBytes) : 0;
  if (dataBytes + metadataBytes === 0)
    return { kind: "hold", reason: "ThinPoolFull", message: `${why}, but ${describeBounds(pool, growth)}` };
  const sizeBytes = pool.sizeBytes + dataBytes;
  const metadataSizeBytes = pool.metadataSizeBytes + metadataBytes;
  const to = `to ${formatBytes(sizeBytes)} data and ${formatBytes(metadataSizeBytes)} metadata`;
  return { kind: "extend", sizeBytes, metadataSizeBytes, message: `${why}: ${to}` };
}

function isKnown({ dataUsedRatio, metadataUsedRatio, ...bytes }: ThinPoolFacts): boolean {
  const { sizeBytes, metadataSizeBytes, groupFreeBytes, grainBytes } = bytes;
  const areRatios = [dataUsedRatio, metadataUsedRatio].every((ratio) => ratio >= 0 && ratio <= 1);
  const areSizes = [sizeBytes, metadataSizeBytes, grainBytes].every((size) => Number.isSafeInteger(size) && size > 0);
  return areRatios && areSizes && Number.isSafeInteger(groupFreeBytes) && groupFreeBytes >= 0;
}

/** The same share as of the data: metadata is used by the mapped block. */
function metadataGrowth(pool: ThinPoolFacts, growth: ThinPoolGrowth): number {
  const wantedBytes = atLeastOneGrain(pool, pool.metadataSizeBytes * shareOf(pool, growth));
  return wholeGrains(
    pool,
    wantedBytes,
    METADATA_MAX_BYTES - pool.metadataSizeBytes,
    pool.groupFreeBytes / METADATA_COPIES,
  );
}

function dataGrowth(pool: ThinPoolFacts, growth: ThinPoolGrowth, roomBytes: number): number {
  const wantedBytes = atLeastOneGrain(pool, pool.sizeBytes * shareOf(pool, growth));
  return wholeGrains(pool, wantedBytes, (growth.maxBytes ?? Number.POSITIVE_INFINITY) - pool.sizeBytes, roomBytes);
}

function shareOf({ sizeBytes }: ThinPoolFacts, { by }: ThinPoolGrowth): number {
  return by.kind === "ratio" ? by.ratio : by.bytes / sizeBytes;
}

function atLeastOneGrain({ grainBytes }: ThinPoolFacts, bytes: number): number {
  return Math.max(grainBytes, bytes);
}

/** The smallest of them, rounded down: max and spare are promises. */
function wholeGrains({ grainBytes }: ThinPoolFacts, ...bytes: readonly number[]): number {
  return Math.max(0, Math.floor(Math.min(...bytes) / grainBytes) * grainBytes);
}

function describeUse({ deviceClass, ...pool }: ThinPoolFacts): string {
  const data = `${formatPercent(pool.dataUsedRatio)} of ${formatBytes(pool.sizeBytes)} data`;
  const metadata = `${formatPercent(pool.metadataUsedRatio)} of ${formatBytes(pool.metadataSizeBytes)} metadata`;
  return `the thin pool of ${deviceClass} uses ${data} and ${metadata}`;
}

function describeUnknown({ deviceClass, ...pool }: ThinPoolFacts): string {
  return `what lvmd tells of the thin pool of ${deviceClass} cannot be, and it is left as it is: ${JSON.stringify(pool)}`;
}

function describeBounds({ groupFreeBytes }: ThinPoolFacts, { maxBytes }: ThinPoolGrowth): string {
  const max = maxBytes === undefined ? "" : `its max is ${formatBytes(maxBytes)}, and `;
  return `${max}its volume group has ${formatBytes(groupFreeBytes)} left beyond the class' spare; add a disk to the group, or delete data`;
}
