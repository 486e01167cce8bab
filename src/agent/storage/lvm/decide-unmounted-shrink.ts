// Whether an ext4 that is not mounted may be made smaller behind a thin snapshot, and what becomes of a shrink that was interrupted.
// Pure: facts in, a decision out. Where anything is unknown nothing is begun, nothing is rolled back, and nothing is mounted.

import * as z from "zod";
import { formatBytes, MIB } from "../../../contracts/quantities/quantity.ts";
import type { Ext4State } from "../filesystem/superblocks.ts";
import { coveringGrains } from "../storage.ts";
import type { PoolBytes } from "./lvm-host.ts";

/** What a thin pool can still take; 0 where that is unknown. */
export interface PoolRoom extends PoolBytes {
  /** What its class keeps back. */
  readonly spareBytes: number;
}

export interface UnmountedShrinkFacts {
  /** Of the volume. */
  readonly fromBytes: number;
  readonly wantedBytes: number;
  readonly grainBytes: number;
  readonly filesystem: Ext4State;
  /** What resize2fs calls the smallest size that it can reach. */
  readonly minimumBytes: number;
  readonly reserveBytes: number;
  readonly pool: PoolRoom;
}

export type GuardedShrinkDecision =
  /** `leastBytes`: no smaller may it come out; `guard`: what the snapshot may take of the pool. */
  | { readonly act: "Shrink"; readonly toBytes: number; readonly leastBytes: number; readonly guard: PoolBytes }
  | { readonly act: "FloorReached"; readonly floorBytes: number; readonly message: string }
  | { readonly act: "Refuse"; readonly message: string };

/** resize2fs counts tightly: without this slack it would move everything for the last block. */
const MINIMUM_SLACK_BYTES = 16 * MIB;
/** Of the snapshot's own tables and the superblocks of both. */
const POOL_DATA_SLACK_BYTES = 64 * MIB;
export const METADATA_SLACK_BYTES = MIB;
/** Two entries of 64 bytes for each chunk of 64 KiB, the smallest there is. */
export const DATA_BYTES_PER_METADATA_BYTE = 512;

export function decideGuardedShrink(facts: UnmountedShrinkFacts): GuardedShrinkDecision {
  const { fromBytes, wantedBytes, grainBytes, filesystem, minimumBytes, reserveBytes } = facts;
  const availableShare = 1 - filesystem.reservedBytes / filesystem.sizeBytes;
  const usedBytes = (filesystem.occupiedBytes + reserveBytes) / availableShare;
  const leastBytes = Math.ceil(Math.max(minimumBytes + MINIMUM_SLACK_BYTES, usedBytes));
  const floorBytes = coveringGrains(leastBytes, grainBytes);
  const toBytes = Math.max(floorBytes, coveringGrains(wantedBytes, grainBytes));
  if (toBytes >= fromBytes || toBytes >= filesystem.sizeBytes)
    return {
      act: "FloorReached",
      floorBytes,
      message:
        `its ext4 holds ${formatBytes(filesystem.occupiedBytes)}, needs ${formatBytes(minimumBytes)} by resize2fs -P, and keeps ` +
        `${formatBytes(reserveBytes)} available: it cannot be smaller than ${formatBytes(floorBytes)}`,
    };
  // Nothing is written beyond the smaller size, and below it each chunk is written again at most once.
  const dataBytes = toBytes + POOL_DATA_SLACK_BYTES;
  const metadataBytes = Math.ceil(dataBytes / DATA_BYTES_PER_METADATA_BYTE) + METADATA_SLACK_BYTES;
  const guard = { dataBytes, metadataBytes };
  return refuseForPool(guard, facts.pool) ?? { act: "Shrink", toBytes, leastBytes, guard };
}

function refuseForPool({ dataBytes, metadataBytes }: PoolBytes, pool: PoolRoom): GuardedShrinkDecision | undefined {
  const freeBytes = Math.max(0, pool.dataBytes - pool.spareBytes);
  if (freeBytes < dataBytes)
    return {
      act: "Refuse",
      message:
        `the snapshot that guards the shrink may take ${formatBytes(dataBytes)} of the thin pool, which has ${formatBytes(freeBytes)} ` +
        `in addition to its spare of ${formatBytes(pool.spareBytes)}`,
    };
  if (pool.metadataBytes >= metadataBytes) return undefined;
  return {
    act: "Refuse",
    message:
      `the snapshot that guards the shrink may take ${formatBytes(metadataBytes)} of the thin pool's metadata, which has ` +
      `${formatBytes(pool.metadataBytes)}`,
  };
}

/**
 * What each mount that writes changes, and neither e2fsck nor resize2fs does. The time alone does not suffice: a clock may start again at
 * each boot.
 */
type MountMarks = Pick<Ext4State, "mountedAtSeconds" | "mountCount">;

export interface InterruptionFacts {
  readonly record: UnmountedShrinkRecord | undefined;
  /** The volume says that a shrink was begun on it. */
  readonly tagged: boolean;
  readonly mounted: boolean;
  /** Undefined: none that can be read as this volume's. "Inactive": there is no device to read it from. */
  readonly filesystem: MountMarks | "Inactive" | undefined;
}

export type Finish =
  | { readonly act: "Nothing" }
  /** The filesystem was not touched: the snapshot goes, and the record. */
  | { readonly act: "Forget" }
  | { readonly act: "RollBack" }
  /** The volume is cut to what the filesystem needs, and the snapshot goes. */
  | { readonly act: "Complete" }
  | { readonly act: "Wait"; readonly message: string }
  /** It is for people to say; nothing is mounted. */
  | { readonly act: "Unknown"; readonly message: string };

/** Total. What anything but the shrink wrote after the snapshot is never rolled back. */
export function decideFinish({ record, tagged, mounted, filesystem }: InterruptionFacts): Finish {
  if (record === undefined)
    return tagged
      ? doubt("its tag says that a shrink was begun on it, and this node has no record of how far")
      : NOTHING;
  if (record.phase === "Begun") return { act: "Forget" };
  if (mounted) return doubt(`it was mounted by hand while a shrink of it is not ended (${record.phase})`);
  if (record.phase === "Proven") return { act: "Complete" };
  if (filesystem === "Inactive") {
    // An agent that recorded RollingBack has released the volume, and what is not active cannot have been mounted.
    if (record.phase === "RollingBack") return { act: "RollBack" };
    return {
      act: "Wait",
      message: "it is not active, so it is unknown whether a shrink of it may be rolled back",
    };
  }
  if (filesystem === undefined)
    return doubt("a shrink of it was interrupted, and no superblock shows whether it was mounted since");
  if (isMountedSince(record, filesystem))
    return doubt("a shrink of it was interrupted, and it was mounted since: rolling back would lose what was written");
  return { act: "RollBack" };
}

function isMountedSince(record: UnmountedShrinkRecord, { mountedAtSeconds, mountCount }: MountMarks): boolean {
  if (mountedAtSeconds !== record.mountedAtSeconds) return true;
  return record.mountCount !== undefined && mountCount !== record.mountCount;
}

const NOTHING: Finish = { act: "Nothing" };

function doubt(message: string): Finish {
  return { act: "Unknown", message };
}

export const unmountedShrinkRecord = z.object({
  /**
   * Begun: the snapshot may be there, and the filesystem is untouched, or is again what it was. Guarded: the snapshot is there, and the
   * filesystem may have been changed in any way. Proven: the filesystem is smaller, and was found to be whole; there is no way back.
   * RollingBack: from Guarded, what has happened since the snapshot is being taken back.
   */
  phase: z.enum(["Begun", "Guarded", "Proven", "RollingBack"]),
  /** Of this attempt alone. */
  snapshot: z.string(),
  /** Of the volume. */
  fromBytes: z.int(),
  toBytes: z.int(),
  /** Of the filesystem, before. */
  filesystemBytes: z.int(),
  mountedAtSeconds: z.int(),
  /** 0: it is set so before a shrink begins. Absent in records of former agents. */
  mountCount: z.int().optional(),
});
export type UnmountedShrinkRecord = z.infer<typeof unmountedShrinkRecord>;
