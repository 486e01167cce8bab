// How a driver takes an expansion of a block volume: manners that real drivers have. Pure.

/**
 * Promptly: the device has the new size at once. Never: it is acknowledged, and the device stays as it is. Partly: half of what was
 * asked for comes. Slowly: all of it comes, a while after the acknowledgement.
 */
export const GROWTH_MANNERS = ["Promptly", "Never", "Partly", "Slowly"] as const;
export type GrowthManner = (typeof GROWTH_MANNERS)[number];

const GRAIN_BYTES = 4096;

/** Bytes that the device has right after the acknowledgement. */
export function grownAtOnce(manner: GrowthManner, presentBytes: number, askedBytes: number): number {
  switch (manner) {
    case "Promptly":
      return askedBytes;
    case "Never":
    case "Slowly":
      return presentBytes;
    case "Partly": {
      const halfBytes = presentBytes + (askedBytes - presentBytes) / 2;
      return halfBytes - (halfBytes % GRAIN_BYTES);
    }
  }
}
