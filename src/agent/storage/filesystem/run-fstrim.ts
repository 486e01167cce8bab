// Gives unused blocks back: fstrim makes holes in the member file, or in a thin volume, where the filesystem holds nothing.

import type { MountedFilesystem } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import { unlessAborted } from "../unless-aborted.ts";
import { syncFilesystem } from "./fresh-reading.ts";

const TRIM_LIMIT_MS = 300_000;

/**
 * Bytes that fstrim reports; it counts all that is unused, whether it was a hole before or not. The signal ends it early, since
 * a writer that needs room must not wait for it: undefined then.
 */
export async function trim(tools: Tools, volume: MountedFilesystem, signal: AbortSignal): Promise<number | undefined> {
  // What was freed since the last commit is not trimmed.
  await unlessAborted(syncFilesystem(tools, volume), signal);
  if (signal.aborted) return undefined;
  const args = ["--verbose", volume.mountPath];
  try {
    const trimmed = await tools.run("trim/fstrim", "fstrim", args, TRIM_LIMIT_MS, signal);
    const said = expectSuccess(trimmed, `trimming ${volume.mountPath} of ${volume.handle}`);
    return Number(/\((\d+) bytes\)/.exec(said)?.[1] ?? 0);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}
