// NodeGetVolumeStats: usage and condition of a mounted volume, from the sampler's last reading and never from the filesystem
// itself: one that hangs must not hang this call.
import { type NodeGetVolumeStatsResponse, type VolumeUsage, VolumeUsage_Unit } from "../../gen/csi/v1/csi.ts";
import { type Reading, StorageError } from "../storage/storage.ts";
import { waitUntil } from "../storage/wait-until.ts";
import { type VolumeState, volumeModeOf } from "../volumes/volume-state.ts";

/** The sampler comes by a volume that was just staged within milliseconds, or finds that it hangs. */
const FIRST_READING_LIMIT_MS = 5000;
const LOOK_INTERVAL_MS = 10;

/** Without usage where the filesystem has never answered. Throws StorageError when it is not known whether it does. */
export async function statsOf(state: VolumeState): Promise<NodeGetVolumeStatsResponse> {
  if (volumeModeOf(state.record) === "Block") return sizeOf(state);
  const isKnown = (): boolean => state.reading !== undefined || state.hung;
  if (!(await waitUntil(isKnown, FIRST_READING_LIMIT_MS, LOOK_INTERVAL_MS)))
    throw new StorageError(
      "Hung",
      `volume ${state.handle} has not been read in ${FIRST_READING_LIMIT_MS} ms; see the agent's log and its /healthz`,
    );
  const { reading, hung } = state;
  return {
    usage: reading === undefined ? [] : usageOf(reading),
    volumeCondition: {
      abnormal: hung,
      message: hung ? "the filesystem does not answer; see dmesg on the node" : "the filesystem answers",
    },
  };
}

/** How much of a device is in use nobody can tell. */
function sizeOf({ sizeBytes = 0 }: VolumeState): NodeGetVolumeStatsResponse {
  const usage = { unit: VolumeUsage_Unit.BYTES, total: sizeBytes, available: 0, used: 0 };
  return { usage: [usage], volumeCondition: { abnormal: false, message: "the device is there" } };
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
