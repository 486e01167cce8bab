// The sizes of a new volume: what was requested is what CSI answers, the first size of the device may be lower. Pure.
import type { FsType } from "../../api/filesystem-layout.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CapacityRange } from "../../gen/csi/v1/csi.ts";
import { formatBytes, GIB, MIB, wholeGiB } from "../../units/quantity.ts";
import type { VolumeParameters } from "./volume-parameters.ts";

export interface PlannedSizes {
  /** CSI's capacity_bytes: exactly the request. */
  readonly requestedBytes: number;
  /** The first device's size: a whole number of filesystem blocks, and of GiB where it is a claim of somebody's class. */
  readonly memberBytes: number;
}

const DEFAULT_REQUEST_BYTES = GIB;
const BLOCK_BYTES = 4096;
/** Quantities up to here are whole numbers. */
const LARGEST_BYTES = 4096 * 1024 * GIB;
/** mkfs.xfs makes nothing under 300 MiB; the others need 256 MiB to be shrunk and grown safely. */
export const MINIMUM_BYTES: Readonly<Record<FsType, number>> = { btrfs: 256 * MIB, ext4: 256 * MIB, xfs: 300 * MIB };

export function planSizes(
  range: CapacityRange | undefined,
  fsType: FsType | undefined,
  { backend, initialBytes, maxBytes }: Pick<VolumeParameters, "backend" | "initialBytes" | "maxBytes">,
): PlannedSizes | Refusal {
  const requestedBytes = requestedIn(range);
  if (requestedBytes instanceof Refusal) return requestedBytes;
  if (maxBytes !== undefined && requestedBytes > maxBytes)
    return outOfRange(
      `the request of ${formatBytes(requestedBytes)} is over the StorageClass' maxSize of ${formatBytes(maxBytes)}`,
    );
  const firstBytes = initialBytes ?? requestedBytes;
  if (firstBytes > requestedBytes)
    return outOfRange(
      `the StorageClass' initialSize of ${formatBytes(firstBytes)} is over the request of ${formatBytes(requestedBytes)}; request at least that`,
    );
  const minimumBytes = fsType === undefined ? 1 : MINIMUM_BYTES[fsType];
  if (firstBytes < minimumBytes)
    return outOfRange(
      `${formatBytes(firstBytes)} is too small for ${fsType ?? "a volume"}, which needs at least ${formatBytes(minimumBytes)}`,
    );
  return { requestedBytes, memberBytes: backend === "span" ? wholeGiB(firstBytes) : roundUpToBlock(firstBytes) };
}

function requestedIn(range: CapacityRange | undefined): number | Refusal {
  const limitBytes = range?.limitBytes ?? 0;
  if (limitBytes < 0 || (range?.requiredBytes ?? 0) < 0)
    return outOfRange(
      `a size of ${Math.min(limitBytes, range?.requiredBytes ?? 0)} bytes is asked for; it cannot be negative`,
    );
  const defaultBytes = limitBytes > 0 ? Math.min(DEFAULT_REQUEST_BYTES, limitBytes) : DEFAULT_REQUEST_BYTES;
  const requestedBytes = range?.requiredBytes || defaultBytes;
  if (limitBytes > 0 && requestedBytes > limitBytes)
    return outOfRange(`${formatBytes(requestedBytes)} is over the limit of ${formatBytes(limitBytes)} in the request`);
  if (requestedBytes > LARGEST_BYTES)
    return outOfRange(
      `${formatBytes(requestedBytes)} is over ${formatBytes(LARGEST_BYTES)}, the largest size there is`,
    );
  return requestedBytes;
}

/**
 * The largest request that a node with so many free bytes can meet (CSI's maximum_volume_size): a volume begins with the class'
 * initialSize where it has one, whatever is asked for.
 */
export function largestRequestBytes(
  freeBytes: number,
  { initialBytes, maxBytes }: Pick<VolumeParameters, "initialBytes" | "maxBytes">,
): number {
  const fitting = initialBytes === undefined ? freeBytes : initialBytes <= freeBytes ? LARGEST_BYTES : 0;
  return Math.min(fitting, maxBytes ?? LARGEST_BYTES);
}

/** Devices have whole blocks; rounded up, so that a claim never gets less than it asked for. */
export function roundUpToBlock(sizeBytes: number): number {
  return Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES;
}

function outOfRange(message: string): Refusal {
  return new Refusal("OUT_OF_RANGE", message);
}
