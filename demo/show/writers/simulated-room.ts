// On the simulated disk nothing stops a writer at the capacity: a plain host directory holds its files. So the writer asks
// here first, and gets the error that a real filesystem of that size would have given.
import { readFile } from "node:fs/promises";

class NoSpaceError extends Error {
  override name = "NoSpaceError";
  readonly code = "ENOSPC";
}

/** What an empty filesystem would use: the agent counts it too. */
export const OVERHEAD_BYTES = 16 * 2 ** 20;

/** Where the capacity of a simulated filesystem stands, in bytes as decimal text: next to its directory. */
export function capacityFileOf(mountPath: string): string {
  return `${mountPath}.tidemark-capacity`;
}

/** Without a capacity file (a real filesystem) there is nothing to check. Throws ENOSPC. */
export async function checkRoom(capacityFile: string | undefined, neededBytes: number): Promise<void> {
  if (capacityFile === undefined) return;
  const capacityBytes = Number(await readFile(capacityFile, "utf8"));
  if (neededBytes + OVERHEAD_BYTES > capacityBytes)
    throw new NoSpaceError(
      `ENOSPC: no space left on the simulated device ${capacityFile}: ${neededBytes} of ${capacityBytes} bytes needed`,
    );
}
