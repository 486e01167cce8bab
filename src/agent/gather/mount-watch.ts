// Looks every few seconds at what no event announces: a mounted filesystem that has become read-only, or can be written to again, and a
// loop member whose file somebody has made longer or shorter. It changes nothing; it has the volume looked at.
import type { Logger } from "../../process/log.ts";
import { type MountTable, mountAt, readMountTable } from "../storage/filesystem/mount-table.ts";
import type { MountedVolume, Storage } from "../storage/storage.ts";
import { type VolumeState, type VolumeStates, volumeOf } from "../volumes/volume-state.ts";

const LOOK_INTERVAL_MS = 2000;

export interface MountWatch {
  stop(): void;
}

export interface MountWatchParts {
  readonly states: VolumeStates;
  readonly storage: Pick<Storage, "sizeBytes">;
  /** Has the volume looked at. */
  readonly changed: (handle: string) => void;
  readonly log: Logger;
}

export function startMountWatch({ states, storage, changed, log }: MountWatchParts): MountWatch {
  const look = async (): Promise<void> => {
    const table = readMountTable();
    for (const state of states.values())
      if (hasTurned(state, table) || (await hasOtherSize(storage, state))) changed(state.handle);
  };
  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= look()
      .catch((err: unknown) => log.warn({ err }, "the mounts could not be looked at; looking again"))
      .finally(() => {
        looking = undefined;
      });
  }, LOOK_INTERVAL_MS).unref();
  return { stop: () => clearInterval(timer) };
}

/** Brings state.readOnlySinceMs up to date. */
export function noteReadOnly(state: VolumeState, nowMs: number): void {
  state.readOnlySinceMs = isReadOnly(state.mounted) ? (state.readOnlySinceMs ?? nowMs) : undefined;
}

/** By the kernel's table alone: what does not answer is not asked. */
export function isReadOnly(mounted: MountedVolume | undefined, table: MountTable = readMountTable()): boolean {
  return mounted !== undefined && "fsType" in mounted && mountAt(mounted.mountPath, table)?.readOnly === true;
}

function hasTurned({ mounted, readOnlySinceMs, closing }: VolumeState, table: MountTable): boolean {
  return !closing && isReadOnly(mounted, table) !== (readOnlySinceMs !== undefined);
}

/** Other members are not to be had without a command, or without lvmd. */
async function hasOtherSize(storage: Pick<Storage, "sizeBytes">, state: VolumeState): Promise<boolean> {
  if (state.record.backend !== "loop" || state.mounted === undefined || state.closing) return false;
  const sizeBytes = await storage.sizeBytes(volumeOf(state.record));
  // Whatever changes its size at this moment says so at its end.
  return state.running === undefined && sizeBytes !== state.sizeBytes;
}
