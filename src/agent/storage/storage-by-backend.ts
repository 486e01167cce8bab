// The storage port of a node with several backends: each volume goes to its own. No behaviour of its own.
import { type LoopVolume, type SpanVolume, type Storage, StorageError, type Volume } from "./storage.ts";

/** Undefined: this node has no spans; a volume that is one is refused. */
export function storageByBackend(loop: Storage<LoopVolume>, span: Storage<SpanVolume> | undefined): Storage {
  const of = (volume: Volume): Storage => {
    switch (volume.backend) {
      case "loop":
        return loop;
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
    extend: async (volume, sizeBytes, signal) => of(volume).extend(volume, sizeBytes, signal),
    shrink: async (volume, sizeBytes, control) => of(volume).shrink(volume, sizeBytes, control),
    recover: async (volume) => of(volume).recover(volume),
    settle: async (volume) => of(volume).settle(volume),
    prepareSpares: async (volume, signal) => of(volume).prepareSpares(volume, signal),
    trim: async (volume) => of(volume).trim(volume),
    freshReading: async (volume) => of(volume).freshReading(volume),
    remove: async (volume) => of(volume).remove(volume),
    // Room for loop members: what other drivers have left nobody on this node can tell.
    freeBytes: () => loop.freeBytes(),
  };
}
