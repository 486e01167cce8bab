// Overwrites a thick volume that is held already with zeros, piece by piece; whoever calls syncs.
import { toolOutput } from "../lvm/lvm-error.ts";
import type { VolumeHost } from "./volume-host.ts";

const BLKDISCARD = "/usr/sbin/blkdiscard";
/** Written out within the time limit of one command by a disk of 10 MB/s. */
const PIECE_BYTES = 512 * 2 ** 20;
const PIECE_LIMIT_MS = 60_000;

/** The kernel lets the device do it where it can, and writes zeros where it cannot. */
export async function zeroAll({ commands }: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, sizeBytes - offset);
    // It is held already: --force lets blkdiscard open it all the same.
    const args = ["--force", "--zeroout", "--offset", String(offset), "--length", String(length), path];
    const wiping = commands.run("lvmd-wipe/zero", BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS });
    await toolOutput(`blkdiscard of ${path}`, wiping);
  }
}
