// NodeGetVolumeStats: usage and condition of a mounted volume, from the sampler's last reading and never from the filesystem
// itself: one that hangs must not hang this call.
import { type NodeGetVolumeStatsResponse, type VolumeUsage, VolumeUsage_Unit } from "../gen/csi/v1/csi.ts";
import type { MountedVolume, Reading } from "./storage/storage.ts";
import type { VolumeState } from "./volume-state.ts";

/** Throws StorageError. */
export async function statsOf(
  { reading, hung, mounted }: VolumeState & { readonly mounted: MountedVolume },
  firstReading: (mounted: MountedVolume) => Promise<Reading>,
): Promise<NodeGetVolumeStatsResponse> {
  return {
    usage: usageOf(reading ?? (await firstReading(mounted))),
    volumeCondition: {
      abnormal: hung,
      message: hung ? "the filesystem does not answer; see dmesg on the node" : "the filesystem answers",
    },
  };
}

/** Inodes only where they are limited. */
function usageOf({ capacityBytes, availableBytes, inodesTotal, inodesUsed }: Reading): VolumeUsage[] {
  const bytes = {
    unit: VolumeUsage_Unit.BYTES,
    total: capacityBytes,
    available: availableBytes,
    used: capacityBytes - availableBytes,
  };
  const inodes = {
    unit: VolumeUsage_Unit.INODES,
    total: inodesTotal,
    available: inodesTotal - inodesUsed,
    used: inodesUsed,
  };
  return inodesTotal === 0 ? [bytes] : [bytes, inodes];
}
