// Which filesystems are sampled, and what to look out for on each: found by the handle that people know and by the slot that
// the sampling thread knows. A slot is never given twice. It tells nobody.

import type { ReadableMount } from "../storage/filesystem/read-filesystem.ts";
import type { Watched } from "./sampler-messages.ts";

/** Byte counts to look out for; 0: none known. */
export interface Marks {
  readonly nextExtendUsedBytes: number;
  readonly minAvailableBytes: number;
}

export interface WatchedFilesystem {
  readonly handle: string;
  readonly watched: Watched;
  marks: Marks;
  operationInProgress: boolean;
  hung: boolean;
}

export interface WatchedFilesystems {
  /** Undefined when it is watched already. */
  add(handle: string, mount: ReadableMount, minAvailableBytes: number): WatchedFilesystem | undefined;
  remove(handle: string): WatchedFilesystem | undefined;
  of(handle: string): WatchedFilesystem | undefined;
  at(slot: number): WatchedFilesystem | undefined;
  all(): Iterable<WatchedFilesystem>;
}

export function createWatchedFilesystems(): WatchedFilesystems {
  const byHandle = new Map<string, WatchedFilesystem>();
  const bySlot = new Map<number, WatchedFilesystem>();
  let nextSlot = 0;
  return {
    add: (handle, { mountPath, fsType, fsid }, minAvailableBytes) => {
      if (byHandle.has(handle)) return undefined;
      const watched = { slot: nextSlot++, mountPath, fsType, fsid };
      const marks = { nextExtendUsedBytes: 0, minAvailableBytes };
      const filesystem = { handle, watched, marks, operationInProgress: false, hung: false };
      byHandle.set(handle, filesystem);
      bySlot.set(watched.slot, filesystem);
      return filesystem;
    },
    remove: (handle) => {
      const filesystem = byHandle.get(handle);
      if (filesystem === undefined) return undefined;
      byHandle.delete(handle);
      bySlot.delete(filesystem.watched.slot);
      return filesystem;
    },
    of: (handle) => byHandle.get(handle),
    at: (slot) => bySlot.get(slot),
    all: () => byHandle.values(),
  };
}

export function sameMarks(left: Marks, right: Marks): boolean {
  return left.nextExtendUsedBytes === right.nextExtendUsedBytes && left.minAvailableBytes === right.minAvailableBytes;
}
