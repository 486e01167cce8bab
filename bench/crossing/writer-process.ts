// An open-loop writer: appends to one file at an offered rate, whatever the disk manages, buffered or synced after each chunk. It
// knows nothing of Tidemark.
//
// Lines on stdin: a Load, or {"stop": true}. Lines on stdout: one Written after each stop.

import { randomFillSync } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { createOfferedLoad } from "../../demo/show/writers/open-loop.ts";

export interface Load {
  readonly path: string;
  readonly bytesPerSecond: number;
  readonly synced: boolean;
}

export interface Written {
  readonly offeredBytesPerSecond: number;
  readonly achievedBytesPerSecond: number;
  /** The first refusal's code; writing ended with it. */
  readonly error: string | undefined;
}

/** One chunk is about this much time of the offered rate: short enough that the writer is smooth, long enough to be cheap. */
const CHUNK_MS = 4;
const CHUNK_MIN_BYTES = 16 * 1024;

function startWriting({ path, bytesPerSecond, synced }: Load): () => Written {
  const chunk = Buffer.alloc(Math.max(CHUNK_MIN_BYTES, Math.round((bytesPerSecond * CHUNK_MS) / 1000)));
  randomFillSync(chunk);
  const file = openSync(path, "w");
  const startMs = performance.now();
  const load = createOfferedLoad(bytesPerSecond, startMs);
  let writtenBytes = 0;
  let error: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  const untilDueMs = (): number => load.dueMs(writtenBytes + chunk.length) - performance.now();
  const turn = (): void => {
    try {
      if (untilDueMs() <= 0) {
        writtenBytes += writeSync(file, chunk);
        if (synced) fdatasyncSync(file);
      }
      timer = setTimeout(turn, Math.max(0, untilDueMs())); // at least one turn of the event loop: it still has to hear "stop"
    } catch (refusal) {
      error = (refusal as NodeJS.ErrnoException).code ?? String(refusal);
    }
  };
  turn();
  return () => {
    clearTimeout(timer);
    closeSync(file);
    const seconds = (performance.now() - startMs) / 1000;
    return { offeredBytesPerSecond: bytesPerSecond, achievedBytesPerSecond: writtenBytes / seconds, error };
  };
}

let stop: (() => Written) | undefined;
createInterface(process.stdin).on("line", (line) => {
  const order = JSON.parse(line) as Load | { stop: true };
  if (!("stop" in order)) {
    stop = startWriting(order);
    return;
  }
  process.stdout.write(`${JSON.stringify(stop?.())}\n`);
  stop = undefined;
});
process.stdin.on("end", () => process.exit(0));
