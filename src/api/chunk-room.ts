// How much room the chunks want that btrfs may make while it moves data: one of data, and one of metadata, which is there twice.
// The agent asks before each removal, the policy-engine before it decides a merge. Pure.
import { GIB, MIB } from "../units/quantity.ts";

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
