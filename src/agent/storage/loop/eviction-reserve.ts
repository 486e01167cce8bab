// What member files leave free on the disk that kubelet watches: below its nodefs.available (10% unless it is configured) it evicts pods, which is
// worse than a volume that does not grow. Source: Kubernetes, "Node-pressure Eviction". Pure.
import { parseQuantity, QuantityError } from "../../../units/quantity.ts";

/** Of the disk, or a size whatever the disk. */
export type EvictionReserve = { readonly ratio: number } | { readonly bytes: number };

const PERCENTAGE = /^(\d{1,2}(?:\.\d+)?)%$/;

/** As kubelet's thresholds are written: "10%", or "5Gi". Throws with a sentence for the user. */
export function readEvictionReserve(text: string): EvictionReserve {
  const [, percentage] = PERCENTAGE.exec(text) ?? [];
  if (percentage !== undefined) return { ratio: Number(percentage) / 100 };
  try {
    return { bytes: parseQuantity(text) };
  } catch (error) {
    if (error instanceof QuantityError)
      throw new Error(`--eviction-reserve ${text} is no percentage below 100%, such as 10%, and no size, such as 5Gi`, {
        cause: error,
      });
    throw error;
  }
}

export function evictionReserveBytes(reserve: EvictionReserve, diskBytes: number): number {
  return "ratio" in reserve ? Math.ceil(reserve.ratio * diskBytes) : reserve.bytes;
}
