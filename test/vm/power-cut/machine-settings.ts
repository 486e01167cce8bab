// What the machine that loses its power is told when it boots.
const MIB = 2 ** 20;

/** From here a mounted btrfs on one device shrinks, under a writer. */
export const FULL_BYTES = 1536 * MIB;
/** To here, in one step or two. */
export const SHRUNK_BYTES = 768 * MIB;
/** From here an unmounted ext4 shrinks. */
export const EXT4_FULL_BYTES = 640 * MIB;
export const EXT4_SHRUNK_BYTES = 512 * MIB;

/**
 * What a power cut takes. "Direct": whatever was in memory; what was sent to the disk is there. "LosesCache": also all that was sent to the
 * disk since its last flush. "ReordersCache": of that, pages that had not come to be written back, which are not the last ones.
 */
export type Disk = "Direct" | "LosesCache" | "ReordersCache";

export type DeviceClassName = "thick" | "thin";

export interface MachineSettings {
  /** Of this host and of the guest: the disks, and what was acknowledged. */
  readonly directory: string;
  /** Of a life on LVM. */
  readonly deviceClass: DeviceClassName | undefined;
  readonly volumeUID: string;
  /** The first makes everything. */
  readonly boot: number;
  /** Shrinks, verifies, checks and removes, and ends by itself. */
  readonly last: boolean;
  readonly disk: Disk;
}
