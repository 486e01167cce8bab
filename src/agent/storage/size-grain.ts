// What a member can be made of: sizes of members are whole grains. Of a logical volume they are its device class'.

/** What the loop device and each filesystem can be made of. */
export const BLOCK_GRAIN_BYTES = 4096;

/** Rounded down: a policy's max is a promise. */
export function wholeGrains(sizeBytes: number, grainBytes = BLOCK_GRAIN_BYTES): number {
  return Math.floor(sizeBytes / grainBytes) * grainBytes;
}

/** Rounded up: no member ends before what is on it. */
export function coveringGrains(sizeBytes: number, grainBytes: number): number {
  return Math.ceil(sizeBytes / grainBytes) * grainBytes;
}
