// A btrfs command that moves data, under watch: cancelled as soon as writers come near the reserve or its caller says so. The
// command's own end is always awaited: before that nobody may resize.
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../process/clock.ts";
import { exclusiveOperation, stopExclusiveOperation } from "./exclusive-operation.ts";
import type { Reader } from "./read-filesystem.ts";
import { cancelReason, RATE_WINDOW_MS, type SpaceSample } from "./shrink-decision.ts";
import type { MountedVolume, ShrinkControl } from "./storage.ts";
import type { Finished, Tools } from "./tools.ts";

const WATCH_INTERVAL_MS = 50;
const RECANCEL_INTERVAL_MS = 10;

export interface WatchedEnd {
  readonly finished: Finished;
  /** Why it was cancelled; undefined when it ran to its own end. */
  readonly cancelled: string | undefined;
}

export async function runWatched(
  host: { readonly tools: Tools; readonly clock: Clock },
  volume: MountedVolume,
  reader: Reader,
  control: ShrinkControl,
  start: () => Promise<Finished>,
): Promise<WatchedEnd> {
  let running = true;
  const command = start().finally(() => {
    running = false;
  });
  // Watched below; awaited at the end.
  command.catch(() => undefined);
  const samples: SpaceSample[] = [];
  let reason: string | undefined;
  while (running && reason === undefined) {
    await Promise.race([command.catch(() => undefined), pauseUnlessAborted(control.signal)]);
    if (!running) break;
    reason = control.signal.aborted
      ? `it was stopped: ${String(control.signal.reason)}`
      : cancelReason(addSample(samples, host.clock.monotonicMs(), reader), control.reserveBytes());
  }
  // The command may not have reached the kernel yet, where there is nothing to cancel: so until it has ended.
  while (running) {
    if (exclusiveOperation(volume.fsid) === "none")
      await Promise.race([command.catch(() => undefined), pause(RECANCEL_INTERVAL_MS)]);
    else await stopExclusiveOperation(host.tools, volume);
  }
  return { finished: await command, cancelled: reason };
}

function addSample(samples: SpaceSample[], atMs: number, reader: Reader): SpaceSample[] {
  const { availableBytes, dataBytes } = reader.read();
  samples.push({ atMs, availableBytes, dataBytes });
  while ((samples[0]?.atMs ?? atMs) < atMs - RATE_WINDOW_MS) samples.shift();
  return samples;
}

async function pauseUnlessAborted(signal: AbortSignal): Promise<void> {
  await pause(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
}
