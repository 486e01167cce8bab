// A reading that leaves nothing pending: deletions that a filesystem has not carried out yet count as used until then.

import type { MountedFilesystem, Reading } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";
import { openReader } from "./read-filesystem.ts";

const SYNC_LIMIT_MS = 120_000;

/** syncfs, by a program of its own: on a hung filesystem it never returns. */
export async function syncFilesystem(tools: Tools, volume: MountedFilesystem): Promise<void> {
  const synced = await tools.query("sync", ["--file-system", volume.mountPath], SYNC_LIMIT_MS);
  expectSuccess(synced, `syncing ${volume.mountPath} of ${volume.handle}`);
}

export async function freshReading(tools: Tools, volume: MountedFilesystem): Promise<Reading> {
  await syncFilesystem(tools, volume);
  const reader = openReader(volume);
  try {
    const { dataBytes: _dataBytes, movesData: _movesData, ...reading } = reader.read();
    return reading;
  } finally {
    reader.close();
  }
}
