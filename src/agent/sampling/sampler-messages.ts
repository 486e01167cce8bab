// What the main thread and the sampling thread say to each other. The shared cells are written by the sampling thread
// before and after everything that can block in the kernel, so that the main thread sees which filesystem it hangs on.
import type { ReadableMount } from "../storage/filesystem/read-filesystem.ts";

/** A filesystem to sample; its slot stays the same over all threads. */
export interface Watched {
  readonly slot: number;
  readonly mountPath: string;
  readonly fsType: ReadableMount["fsType"];
  readonly fsid: string;
}

export type ToSamplingThread =
  | { readonly type: "watch"; readonly watched: Watched }
  | { readonly type: "forget"; readonly slot: number }
  /** Byte marks to look out for; 0: none. */
  | {
      readonly type: "guide";
      readonly slot: number;
      readonly nextExtendUsedBytes: number;
      readonly minAvailableBytes: number;
    }
  /** An operation began or ended; at its end one reading is taken at once. */
  | { readonly type: "operation"; readonly slot: number; readonly inProgress: boolean };

export type FromSamplingThread =
  | { readonly type: "readings"; readonly rows: Float64Array }
  | { readonly type: "unreadable"; readonly slot: number; readonly message: string };

export interface SamplingThreadData {
  readonly cells: Int32Array;
}

/** Cells of the shared array. */
export const CELL_COUNT = 2;
/** Changes whenever the thread gets on. */
export const BEAT_CELL = 0;
/** 1 + the slot that is being opened or read; 0: none. */
export const READING_CELL = 1;

/** The thread beats at least this often. */
export const BEAT_INTERVAL_MS = 1000;
