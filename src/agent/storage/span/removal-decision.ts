// Whether a device may be taken out of a btrfs now. Pure: figures in, a move out. A removal for which there is too little room
// elsewhere forces the filesystem read-only; so what moves, and room beside it, must fit before it begins.
import { formatBytes, GIB, MIB } from "../../../units/quantity.ts";

/** Beside what moves, the other devices keep room for a new data chunk and for one of metadata, which is there twice. */
const CHUNK_MAX_BYTES = 1024 * MIB;
/** Above this size of a filesystem the kernel makes its metadata chunks larger: btrfs_calc_chunk_size. */
const LARGE_BYTES = 50 * GIB;
const METADATA_CHUNK_BYTES = { small: 256 * MIB, large: 1024 * MIB } as const;
/** As a shrink's: chunks emptier than this are repacked first, each at most once; never metadata. */
const BALANCE_USAGE_PERCENTS = [0, 25, 50] as const;

export interface RemovalFacts {
  readonly member: string;
  readonly deviceBytes: number;
  /** Of the device, given to chunks: all of it moves. */
  readonly allocatedBytes: number;
  readonly othersUnallocatedBytes: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly reserveBytes: number;
  readonly balancesDone: number;
}

export type RemovalMove =
  | { readonly kind: "remove" }
  | { readonly kind: "balance"; readonly usagePercent: number }
  | { readonly kind: "floor"; readonly floorBytes: number; readonly message: string };

export function nextRemovalMove(facts: RemovalFacts): RemovalMove {
  const { member, deviceBytes, capacityBytes, availableBytes, reserveBytes } = facts;
  const usedBytes = capacityBytes - availableBytes;
  const leftBytes = capacityBytes - deviceBytes;
  const stays = `member ${member} (${formatBytes(deviceBytes)}) stays`;
  if (leftBytes < usedBytes + reserveBytes)
    return {
      kind: "floor",
      floorBytes: usedBytes + reserveBytes,
      message:
        `${stays}: the other members have ${formatBytes(leftBytes)}, less than ${formatBytes(usedBytes)} used + a reserve of ` +
        formatBytes(reserveBytes),
    };
  const neededBytes = facts.allocatedBytes + Math.min(CHUNK_MAX_BYTES, leftBytes / 10) + metadataRoomBytes(facts);
  if (facts.othersUnallocatedBytes >= neededBytes) return { kind: "remove" };
  const usagePercent = BALANCE_USAGE_PERCENTS[facts.balancesDone];
  if (usagePercent !== undefined) return { kind: "balance", usagePercent };
  return {
    kind: "floor",
    floorBytes: capacityBytes,
    message:
      `${stays}: the other members have ${formatBytes(facts.othersUnallocatedBytes)} unallocated, and taking it out safely needs ` +
      `${formatBytes(neededBytes)} (${formatBytes(facts.allocatedBytes)} to move, and room for new chunks)`,
  };
}

/** By the size before: a removal that is cancelled gives it back. */
function metadataRoomBytes({ capacityBytes }: RemovalFacts): number {
  return 2 * METADATA_CHUNK_BYTES[capacityBytes > LARGE_BYTES ? "large" : "small"];
}
