// Overwrites parts of a thick volume that is held already with zeros, or discards parts of a thin one.
import type { CommandOptions, CommandResult } from "../../process/command-port.ts";
import { toolOutput } from "../lvm/lvm-error.ts";
import type { VolumeHost } from "./volume-host.ts";

/** As an effect of its caller. */
export type RunZeroing = (
  path: `/${string}`,
  args: readonly string[],
  options: CommandOptions,
) => Promise<CommandResult>;

export const BLKDISCARD = "/usr/sbin/blkdiscard";
/** Written out within the time limit of one command by a disk of 10 MB/s that reductions are zeroed on as well. */
const PIECE_BYTES = 128 * 2 ** 20;
const PIECE_LIMIT_MS = 60_000;

export async function zeroAll({ commands }: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  for (let offset = 0; offset < sizeBytes; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, sizeBytes - offset);
    await zeroPiece((...command) => commands.run("lvmd-wipe/zero", ...command), path, offset, length);
  }
}

/** The kernel lets the device do it where it can, and writes zeros where it cannot. Throws LvmError. */
export function zeroPiece(run: RunZeroing, path: string, offset: number, length: number): Promise<void> {
  return clear(run, ["--zeroout"], path, offset, length);
}

/** Of a thin volume: what only it has goes back to its pool. Throws LvmError. */
export function discardPiece(run: RunZeroing, path: string, offset: number, length: number): Promise<void> {
  return clear(run, [], path, offset, length);
}

async function clear(
  run: RunZeroing,
  how: readonly string[],
  path: string,
  offset: number,
  length: number,
): Promise<void> {
  // It is held already: --force lets blkdiscard open it all the same.
  const args = ["--force", ...how, "--offset", String(offset), "--length", String(length), path];
  await toolOutput(`blkdiscard of ${path}`, run(BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS }));
}
