// The storage port of a node with several backends: each volume goes to its own. No behaviour of its own.
import type { LvmStorage } from "./lvm/lvm-storage.ts";
import { type LoopVolume, type SpanVolume, type Storage, StorageError, type Volume } from "./storage.ts";

/** Those that are not there: this node has none, and a volume that is one is refused. */
export interface OptionalBackends {
  readonly lvm: LvmStorage | undefined;
  readonly span: Storage<SpanVolume> | undefined;
}

export function storageByBackend(loop: Storage<LoopVolume>, { lvm, span }: OptionalBackends): Storage {
  const of = (volume: Volume): Storage => {
    switch (volume.backend) {
      case "loop":
        return loop;
      case "lvm":
        if (lvm !== undefined) return volume.volumeMode === "Block" ? lvm.raw : lvm.filesystems;
        throw new StorageError(
          "CommandFailed",
          `the agent of this node has no lvmd, so ${volume.handle} cannot be used here; start it with --lvmd-socket`,
        );
      case "span":
        if (span !== undefined) return span;
        throw new StorageError(
          "CommandFailed",
          `the agent of this node serves no spans, so ${volume.handle} cannot be used here; start it with --span-csi-socket`,
        );
    }
  };
  return {
    kind: loop.kind,
    stage: async (volume, sizeBytes, mountPath) => of(volume).stage(volume, sizeBytes, mountPath),
    unstage: async (volume, mountPath) => of(volume).unstage(volume, mountPath),
    find: async (volume, mountPath) => of(volume).find(volume, mountPath),
    mountPath: async (volume) => of(volume).mountPath(volume),
    sizeBytes: async (volume) => of(volume).sizeBytes(volume),
    members: async (volume) => of(volume).members(volume),
    immovable: async (volume) => of(volume).immovable(volume),
    extend: async (volume, sizeBytes, signal, tell) => of(volume).extend(volume, sizeBytes, signal, tell),
    shrink: async (volume, sizeBytes, control) => of(volume).shrink(volume, sizeBytes, control),
    recover: async (volume, signal) => of(volume).recover(volume, signal),
    settle: async (volume) => of(volume).settle(volume),
    prepareSpares: async (volume, signal) => of(volume).prepareSpares(volume, signal),
    trim: async (volume, signal) => of(volume).trim(volume, signal),
    freshReading: async (volume) => of(volume).freshReading(volume),
    shrinksUnmounted: (volume) => of(volume).shrinksUnmounted(volume),
    shrinkUnmounted: async (volume, sizeBytes, control) => of(volume).shrinkUnmounted(volume, sizeBytes, control),
    finishUnmounted: async (volume) => of(volume).finishUnmounted(volume),
    remove: async (volume) => of(volume).remove(volume),
    // What other drivers have left nobody on this node can tell.
    freeBytes: async (deviceClass) =>
      deviceClass === undefined ? loop.freeBytes() : lvm?.filesystems.freeBytes(deviceClass),
  };
}
