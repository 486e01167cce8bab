// Sampling, seen from the main thread: which filesystems are watched, and that one which never answers stops no other: a new
// thread is told of all but those that hang. Here nothing touches a mount.
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { ReadableMount } from "../storage/filesystem/read-filesystem.ts";
import { type SlotReading, unpackReadings } from "./sample-batch.ts";
import type { FromSamplingThread } from "./sampler-messages.ts";
import { createSamplingThreads, type SamplingThreads } from "./sampling-threads.ts";
import {
  createWatchedFilesystems,
  type Marks,
  sameMarks,
  type WatchedFilesystem,
  type WatchedFilesystems,
} from "./watched-filesystems.ts";

/** Called synchronously, in the sampling thread's message; must not throw. */
export interface SamplerListener {
  readings(readings: readonly (Omit<SlotReading, "slot"> & { readonly handle: string })[]): void;
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
  const readings = unpackReadings(message.rows).flatMap(({ slot, ...reading }) => {
    const handle = filesystems.at(slot)?.handle;
    return handle === undefined ? [] : [{ ...reading, handle }];
  });
  if (readings.length > 0) listener.readings(readings);
}

function logHung(log: Logger, { handle, hung, watched: { mountPath } }: WatchedFilesystem): void {
  log[hung ? "error" : "info"](
    { volume: handle, mountPath },
    hung ? "the filesystem does not answer; it is no longer sampled" : "the filesystem answers again",
  );
}
