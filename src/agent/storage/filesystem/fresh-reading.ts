// A reading, or a trim, that leaves nothing pending: deletions that a filesystem has not carried out yet count as used until then.

import type { Reading } from "../../../contracts/reading.ts";
import { unlessAborted } from "../../../platform/process/async/limited-wait.ts";
import type { MountedFilesystem } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import { type MountReader, readOnce } from "./mount-reader.ts";

const SYNC_LIMIT_MS = 120_000;

/** syncfs, by a program of its own: on a hung filesystem it never returns. */
export async function syncFilesystem(tools: Tools, volume: MountedFilesystem): Promise<void> {
  const synced = await tools.query("sync", ["--file-system", volume.mountPath], SYNC_LIMIT_MS);
  expectSuccess(synced, `syncing ${volume.mountPath} of ${volume.handle}`);
}

interface ReadingHost {
  readonly tools: Tools;
  readonly mounts: MountReader;
}

export async function freshReading({ tools, mounts }: ReadingHost, volume: MountedFilesystem): Promise<Reading> {
  await syncFilesystem(tools, volume);
  const { dataBytes: _dataBytes, movesData: _movesData, ...reading } = await readOnce(mounts, volume);
  return reading;
}

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
