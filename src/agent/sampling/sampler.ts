// Sampling, seen from the main thread: which filesystems are watched. A filesystem that never answers stops no other: a new thread gets all
// but those that hang. Nothing here touches a mount.

import type { SampledReading } from "../../contracts/reading.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { ReadableMount } from "../storage/filesystem/mount-reader.ts";
import { type FromSamplingThread, unpackReadings, type Watched } from "./sampler-messages.ts";
import { createSamplingThreads, type SamplingThreads } from "./sampling-threads.ts";

export interface HandleReading {
  readonly handle: string;
  readonly reading: SampledReading;
}

/** Called synchronously, in the sampling thread's message; must not throw. */
export interface SamplerListener {
  readings(readings: readonly HandleReading[]): void;
  unreadable(handle: string, message: string): void;
  /** The filesystem answers no more, or again. */
  hung(handle: string, hung: boolean): void;
}

export interface Sampler {
  /** From now on; watching twice is watching once. */
  watch(handle: string, mount: ReadableMount, minAvailableBytes: number): void;
  forget(handle: string): void;
  /** Marks of a filesystem that is not watched are dropped. 0: none. */
  setMinAvailable(handle: string, minAvailableBytes: number): void;
  setNextExtend(handle: string, nextExtendUsedBytes: number): void;
  /** At an operation's end one reading is taken at once. */
  operation(handle: string, inProgress: boolean): void;
  /** Threads that hang in the kernel. The process cannot exit with one; it can only be killed. */
  strandedThreads(): number;
  /** Undefined when it works. */
  unhealthy(): string | undefined;
  stop(): Promise<void>;
}

export interface SamplerOptions {
  /** The bundled sampling thread. */
  readonly workerPath: string;
  /** A read that takes this long is one that never ends. */
  readonly hungAfterMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly listener: SamplerListener;
}

export function createSampler({ workerPath, hungAfterMs, clock, log, listener }: SamplerOptions): Sampler {
  const filesystems = createWatchedFilesystems();
  const setHung = (slot: number, hung: boolean): void => {
    const filesystem = filesystems.at(slot);
    if (filesystem === undefined || filesystem.hung === hung) return;
    filesystem.hung = hung;
    logHung(log, filesystem);
    listener.hung(filesystem.handle, hung);
    if (!hung) tellAll(threads.tell, filesystem);
  };
  const threads = createSamplingThreads({
    workerPath,
    hungAfterMs,
    clock,
    log,
    started: (tell) => {
      for (const filesystem of filesystems.all()) if (!filesystem.hung) tellAll(tell, filesystem);
    },
    received: (message) => passOn(filesystems, listener, message),
    hung: setHung,
  });
  const mark = (handle: string, change: Partial<Marks>): void => {
    const filesystem = filesystems.of(handle);
    if (filesystem === undefined) return;
    const marks = { ...filesystem.marks, ...change };
    if (sameMarks(filesystem.marks, marks)) return;
    filesystem.marks = marks;
    threads.tell({ type: "guide", slot: filesystem.watched.slot, ...marks });
  };
  return {
    watch: (handle, mount, minAvailableBytes) => {
      const filesystem = filesystems.add(handle, mount, minAvailableBytes);
      if (filesystem !== undefined) tellAll(threads.tell, filesystem);
    },
    forget: (handle) => {
      const filesystem = filesystems.remove(handle);
      if (filesystem !== undefined) threads.tell({ type: "forget", slot: filesystem.watched.slot });
    },
    setMinAvailable: (handle, minAvailableBytes) => mark(handle, { minAvailableBytes }),
    setNextExtend: (handle, nextExtendUsedBytes) => mark(handle, { nextExtendUsedBytes }),
    operation: (handle, inProgress) => {
      const filesystem = filesystems.of(handle);
      if (filesystem === undefined) return;
      filesystem.operationInProgress = inProgress;
      threads.tell({ type: "operation", slot: filesystem.watched.slot, inProgress });
    },
    strandedThreads: threads.stranded,
    unhealthy: () =>
      threads.working()
        ? undefined
        : `sampling has stopped: ${threads.stranded()} threads hang on filesystems that do not answer`,
    stop: threads.stop,
  };
}

/** All that a thread has to know of a filesystem that is new to it. */
function tellAll(tell: SamplingThreads["tell"], { watched, marks, operationInProgress }: WatchedFilesystem): void {
  const { slot } = watched;
  tell({ type: "watch", watched });
  tell({ type: "guide", slot, ...marks });
  if (operationInProgress) tell({ type: "operation", slot, inProgress: true });
}

function passOn(filesystems: WatchedFilesystems, listener: SamplerListener, message: FromSamplingThread): void {
  if (message.type === "unreadable") {
    const filesystem = filesystems.at(message.slot);
    if (filesystem !== undefined) listener.unreadable(filesystem.handle, message.message);
    return;
  }
  const readings: HandleReading[] = [];
  for (const { slot, reading } of unpackReadings(message.rows)) {
    const handle = filesystems.at(slot)?.handle;
    if (handle !== undefined) readings.push({ handle, reading });
  }
  if (readings.length > 0) listener.readings(readings);
}

function logHung(log: Logger, { handle, hung, watched: { mountPath } }: WatchedFilesystem): void {
  log[hung ? "error" : "info"](
    { volume: handle, mountPath },
    hung ? "the filesystem does not answer; it is no longer sampled" : "the filesystem answers again",
  );
}

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

/**
 * Which filesystems are sampled, and what to look out for on each: found by the handle that people know and by the slot that the sampling
 * thread knows. A slot is never given twice. It sends no messages.
 */
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
