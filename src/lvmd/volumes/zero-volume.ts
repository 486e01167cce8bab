// Overwrites a volume that is held already with zeros, piece by piece; they are on the disk when it returns.
import { LvmError, toolOutput } from "../lvm/lvm-error.ts";
import type { VolumeHost } from "./volume-host.ts";

const BLKDISCARD = "/usr/sbin/blkdiscard";
/** Written out within the time limit of one command by a disk of 10 MB/s. */
const PIECE_BYTES = 512 * 2 ** 20;
/** What the zeros of a snapshot may take from its pool at a time. */
const THIN_PIECE_BYTES = 64 * 2 ** 20;
const PIECE_LIMIT_MS = 60_000;

/** The kernel lets the device do it where it can, and writes zeros where it cannot. */
export async function zeroAll({ commands }: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  for (const range of piecesOf(sizeBytes, PIECE_BYTES)) {
    const args = ["--zeroout", ...rangeArguments(range), path];
    const wiping = commands.run("lvmd-wipe/zero", BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS });
    await toolOutput(`blkdiscard of ${path}`, wiping);
  }
}

/**
 * Of a thin volume only what was written: zeros everywhere would take its whole size from the pool. Zeros over what it shares with a
 * snapshot take chunks of their own, hence each piece is given back once it is zeros on the disk.
 */
export async function zeroThin(host: VolumeHost, path: string, sizeBytes: number): Promise<void> {
  let givesBack = true;
  for (const range of piecesOf(sizeBytes, THIN_PIECE_BYTES)) {
    const found = await host.files.zeroWritten("lvmd-wipe/zero-written", path, range);
    if (found === "Written" && givesBack) givesBack = await giveBack(host, path, range);
  }
}

interface Range {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

function piecesOf(sizeBytes: number, pieceBytes: number): Range[] {
  return Array.from({ length: Math.ceil(sizeBytes / pieceBytes) }, (_, index) => {
    const offsetBytes = index * pieceBytes;
    return { offsetBytes, lengthBytes: Math.min(pieceBytes, sizeBytes - offsetBytes) };
  });
}

/** It is held already: --force lets blkdiscard open it all the same. */
function rangeArguments({ offsetBytes, lengthBytes }: Range): string[] {
  return ["--force", "--offset", String(offsetBytes), "--length", String(lengthBytes)];
}

/** False: its pool takes no discards (lvmthin(7), "discards"). The removal gives everything back in any case. */
async function giveBack({ commands, log }: VolumeHost, path: string, range: Range): Promise<boolean> {
  const args = [...rangeArguments(range), path];
  try {
    const discarding = commands.run("lvmd-wipe/give-back", BLKDISCARD, args, { timeLimitMs: PIECE_LIMIT_MS });
    await toolOutput(`blkdiscard of ${path}`, discarding);
    return true;
  } catch (err) {
    if (!(err instanceof LvmError) || err.code !== "Failed") throw err;
    log.warn({ err }, "what a wipe has zeroed cannot be given back to its pool before the volume is removed");
    return false;
  }
}
