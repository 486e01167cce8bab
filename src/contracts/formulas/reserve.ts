// How much must stay available when a filesystem gets smaller. One formula for the process that plans and the one that watches. Pure.
import { GIB, MIB } from "../quantities/quantity.ts";

const RESERVE_MIN_BYTES = 256 * MIB;
/** How long a step of a shrink may take to be cancelled, with the writer at its peak. */
const RESERVE_WRITING_SECONDS = 2;

/** Whole bytes. `peakWriteBytesPerSecond` is the writer's highest rate of the last 60 s. */
export function reserveBytes(minAvailableBytes: number, peakWriteBytesPerSecond: number): number {
  return Math.max(minAvailableBytes, RESERVE_MIN_BYTES, Math.ceil(RESERVE_WRITING_SECONDS * peakWriteBytesPerSecond));
}

// The chunks that btrfs may make while it moves data: one of data, and one of metadata, which exists twice. The agent asks before each
// removal, the policy-engine before it decides a merge.

const DATA_CHUNK_MAX_BYTES = GIB;
/** Above this size of a filesystem the kernel makes its metadata chunks larger: btrfs_calc_chunk_size. */
const LARGE_BYTES = 50 * GIB;
const METADATA_CHUNK_MAX_BYTES = { small: 256 * MIB, large: GIB } as const;
/** No chunk is larger than a tenth of what can be written to, rounded up to this: decide_stripe_size_regular. */
const CHUNK_GRAIN_BYTES = 16 * MIB;
const CHUNKS_PER_FILESYSTEM = 10;

/** On devices of `leftBytes` together, of a filesystem that has `sizeBytes` while it moves data. */
export function chunkRoomBytes(leftBytes: number, sizeBytes: number): number {
  const tenthBytes = Math.ceil(leftBytes / CHUNKS_PER_FILESYSTEM / CHUNK_GRAIN_BYTES) * CHUNK_GRAIN_BYTES;
  const metadataBytes = METADATA_CHUNK_MAX_BYTES[sizeBytes > LARGE_BYTES ? "large" : "small"];
  return Math.min(DATA_CHUNK_MAX_BYTES, tenthBytes) + 2 * Math.min(metadataBytes, tenthBytes);
}

/** The least size of all devices together that holds chunks of so many bytes, plus that room. */
export function leastLeftBytes(allocatedBytes: number, sizeBytes: number): number {
  let leftBytes = allocatedBytes;
  // Each round adds less than a third of the one before, and what it adds is whole grains.
  for (;;) {
    const neededBytes = allocatedBytes + chunkRoomBytes(leftBytes, sizeBytes);
    if (neededBytes <= leftBytes) return leftBytes;
    leftBytes = neededBytes;
  }
}
