// Whether a thin pool must grow, and to what: pure, from what lvmd reports of its device class, and what policies say of it. Its data and
// its metadata are two volumes of one group: either one that is full stops every write in the pool, so each grows by its own ratio;
// metadata first, since a little of it goes a long way.

import type { DeviceClass } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import type { ThinPoolRule } from "../../contracts/kinds/thin-pool-rule.ts";
import type { ClusterVolumePolicy } from "../../contracts/kinds/volume-policy.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes, MIB, parseQuantity, QuantityError } from "../../contracts/quantities/quantity.ts";
import { formatPercent, PercentError, parsePercent } from "../../contracts/quantities/ratio.ts";
import type { HoldReason, ThinPoolReason } from "../../contracts/reasons.ts";

/** One thin pool as lvmd reports it. */
export interface ThinPoolFacts {
  readonly deviceClass: string;
  readonly sizeBytes: number;
  readonly metadataSizeBytes: number;
  /** 0..1, both; anything else: unknown. */
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
  const at = formatPercent(growth.extendAtRatio);
  if (growth.suspended)
    return {
      kind: "hold",
      reason: "PolicySuspended",
      message: `${use}; ${growth.policy} extends it at ${at}, but is suspended`,
    };
  const metadataBytes = isMetadataShort ? metadataGrowth(pool, growth) : 0;
  const dataBytes = isDataShort ? dataGrowth(pool, growth, pool.groupFreeBytes - METADATA_COPIES * metadataBytes) : 0;
  if (dataBytes + metadataBytes === 0)
    return { kind: "hold", reason: "ThinPoolFull", message: withDetail(describeBounds(pool, growth), use) };
  const sizeBytes = pool.sizeBytes + dataBytes;
  const metadataSizeBytes = pool.metadataSizeBytes + metadataBytes;
  const to = `to ${formatBytes(sizeBytes)} and ${formatBytes(metadataSizeBytes)}`;
  return { kind: "extend", sizeBytes, metadataSizeBytes, message: `${use}; ${to} (${growth.policy}, ${at})` };
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
  return `thin pool ${deviceClass}: ${data} and ${metadata} used`;
}

function describeUnknown({ deviceClass, ...pool }: ThinPoolFacts): string {
  return withDetail(
    `the thin pool of ${deviceClass} stays as it is: lvmd reports impossible figures`,
    JSON.stringify(pool),
  );
}

function describeBounds(pool: ThinPoolFacts, { maxBytes, policy }: ThinPoolGrowth): string {
  if (maxBytes !== undefined && pool.sizeBytes + pool.grainBytes > maxBytes)
    return `raise thinPools.max of ${policy} (${formatBytes(maxBytes)}), or delete data`;
  return `add a disk to the volume group, or delete data (${formatBytes(pool.groupFreeBytes)} are left beyond the spare)`;
}

/** Undefined: the class is thick, or the state of its pool is unknown now. */
export function thinPoolFacts({ name, thinPool, sizeGrainBytes, problem }: DeviceClass): ThinPoolFacts | undefined {
  if (thinPool === undefined || problem !== "" || thinPool.sizeBytes <= 0) return undefined;
  const { sizeBytes, metadataSizeBytes, dataPercent, metadataPercent, groupFreeBytes } = thinPool;
  return {
    deviceClass: name,
    sizeBytes,
    metadataSizeBytes,
    dataUsedRatio: dataPercent / 100,
    metadataUsedRatio: metadataPercent / 100,
    groupFreeBytes,
    grainBytes: sizeGrainBytes,
  };
}

const DEFAULT_EXTEND_AT = "80%";
const DEFAULT_BY = "20%";

/** A rule that cannot be read: the agent does not guess what was meant. */
export interface UnreadableGrowth {
  readonly problem: string;
}

/**
 * What the ClusterVolumePolicies say of one device class: of those that name it the first, by priority and then by age, as everywhere. What
 * got past the schema may have any text. Undefined: no policy names the class.
 */
export function readGrowth(
  policies: readonly ClusterVolumePolicy[],
  deviceClass: string,
): ThinPoolGrowth | UnreadableGrowth | undefined {
  const naming = policies.flatMap((policy) => {
    const rule = policy.spec.thinPools?.find((one) => one.deviceClass === deviceClass);
    return rule === undefined ? [] : [{ policy, rule }];
  });
  const [first] = naming.sort((a, b) => byPrecedence(a.policy, b.policy));
  return first && growthOf(first.policy, first.rule);
}

function growthOf(policy: ClusterVolumePolicy, rule: ThinPoolRule): ThinPoolGrowth | UnreadableGrowth {
  const name = `ClusterVolumePolicy ${policy.metadata.name}`;
  const by = rule.by ?? DEFAULT_BY;
  try {
    return {
      policy: name,
      suspended: policy.spec.suspend === true,
      extendAtRatio: parsePercent(rule.extendAt ?? DEFAULT_EXTEND_AT),
      by: by.endsWith("%") ? { kind: "ratio", ratio: parsePercent(by) } : { kind: "bytes", bytes: parseQuantity(by) },
      maxBytes: rule.max === undefined ? undefined : parseQuantity(rule.max),
    };
  } catch (error) {
    if (!(error instanceof PercentError || error instanceof QuantityError)) throw error;
    return { problem: `${name}, thinPools of ${rule.deviceClass}: ${error.message}` };
  }
}

function byPrecedence(a: ClusterVolumePolicy, b: ClusterVolumePolicy): number {
  return (
    (b.spec.priority ?? 0) - (a.spec.priority ?? 0) ||
    Date.parse(a.metadata.creationTimestamp ?? "") - Date.parse(b.metadata.creationTimestamp ?? "") ||
    (a.metadata.name < b.metadata.name ? -1 : 1)
  );
}
