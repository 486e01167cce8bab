// What the loop device and each filesystem can be made of. Sizes of members are whole grains.

const SIZE_GRAIN_BYTES = 4096;

/** Rounded down: a policy's max is a promise. */
export function wholeGrains(sizeBytes: number): number {
  return Math.floor(sizeBytes / SIZE_GRAIN_BYTES) * SIZE_GRAIN_BYTES;
}
