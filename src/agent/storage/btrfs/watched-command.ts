// A btrfs command that moves data, under watch: cancelled as soon as writers come near the reserve or its caller says so. The
// command's own end is always awaited: before that nobody may resize.
import { setTimeout as pause } from "node:timers/promises";
import type { Clock } from "../../../process/clock.ts";
import type { Logger } from "../../../process/log.ts";
import type { Reader } from "../filesystem/read-filesystem.ts";
import { cancelReason, RATE_WINDOW_MS, type SpaceSample, stoppedMessage } from "../shrink-decision.ts";
import type { MountedFilesystem, ShrinkControl } from "../storage.ts";
import type { Finished, Tools } from "../tools.ts";
import { exclusiveOperation } from "./exclusive-operation.ts";
import { othersOperation } from "./others-at-work.ts";
import { stopExclusiveOperation } from "./stop-exclusive.ts";

const WATCH_INTERVAL_MS = 50;
const RECANCEL_INTERVAL_MS = 10;
const FAILED_CANCEL_WAIT_MS = 1000;

export interface WatchedEnd {
  readonly finished: Finished;
  /** Why it was cancelled; undefined when it ran to its own end. */
  readonly cancelled: string | undefined;
}

/** What a host of single members and one of a span's have both. */
interface WatchingHost {
  readonly tools: Tools;
  readonly clock: Clock;
  readonly log: Logger;
}

/** `otherReason`: one more reason to cancel, besides the caller's signal and the filesystem's own figures. */
export async function runWatched(
  host: WatchingHost,
  volume: MountedFilesystem,
  reader: Reader,
  control: ShrinkControl,
  start: () => Promise<Finished>,
  otherReason: () => string | undefined = () => undefined,
): Promise<WatchedEnd> {
  const running: RunningCommand = { command: start(), ended: false };
  const noteEnd = (): void => {
    running.ended = true;
  };
  running.command.then(noteEnd, noteEnd); // its result is awaited at the end
  try {
    const cancelled = await watch(host, reader, control, otherReason, running);
    await stop(host, volume, running);
    return { finished: await running.command, cancelled };
  } catch (error) {
    // What nobody watches must not go on.
    await stop(host, volume, running);
    throw error;
  }
}

interface RunningCommand {
  readonly command: Promise<Finished>;
  ended: boolean;
}

/** Why the command must be cancelled; undefined when it has ended before that. */
async function watch(
  { clock }: WatchingHost,
  reader: Reader,
  { signal, reserveBytes }: ShrinkControl,
  otherReason: () => string | undefined,
  running: RunningCommand,
): Promise<string | undefined> {
  const samples: SpaceSample[] = [];
  let reason: string | undefined;
  while (reason === undefined) {
    await Promise.race([settled(running), pauseUnlessAborted(signal)]);
    if (running.ended) return undefined;
    reason = signal.aborted
      ? stoppedMessage(signal)
      : (cancelReason(addSample(samples, clock.monotonicMs(), reader), reserveBytes()) ?? otherReason());
  }
  return reason;
}

/**
 * Cancels until the command has ended, which has a time limit of its own. It may not have reached the kernel yet, where there is
 * nothing to cancel; and a cancel that fails is tried again. What somebody else begins once the command's own was cancelled goes on.
 */
async function stop(host: WatchingHost, volume: MountedFilesystem, running: RunningCommand): Promise<void> {
  let cancelled = false;
  while (!running.ended) {
    let waitMs = RECANCEL_INTERVAL_MS;
    try {
      const mayCancel = !cancelled || (await othersOperation(host.tools, volume)) === undefined;
      if (mayCancel && exclusiveOperation(volume.fsid) !== "none") {
        await stopExclusiveOperation(host.tools, volume);
        cancelled = true;
      }
    } catch (err) {
      host.log.warn({ volume: volume.handle, err }, "a running step could not be cancelled; trying again");
      waitMs = FAILED_CANCEL_WAIT_MS;
    }
    await Promise.race([settled(running), pause(waitMs)]);
  }
}

async function settled({ command }: RunningCommand): Promise<void> {
  await command.catch(() => undefined);
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
