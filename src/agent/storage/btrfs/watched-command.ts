// A btrfs command that moves data, under watch: cancelled as soon as writers come near the reserve, its caller says so, or no reading
// comes. The command's own end is always awaited: before that no process may resize.
import { unlessAborted, withTimeLimit } from "../../../platform/process/async/limited-wait.ts";
import { pause } from "../../../platform/process/async/pause.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { cancelReason, RATE_WINDOW_MS, type SpaceSample, stoppedMessage } from "../decide-shrink.ts";
import type { FilesystemReading, OpenMount } from "../filesystem/mount-reader.ts";
import type { MountedFilesystem, ShrinkControl } from "../storage.ts";
import type { Finished, Tools } from "../tools.ts";
import { exclusiveOperation, othersOperation, stopExclusiveOperation } from "./exclusive-operation.ts";

const WATCH_INTERVAL_MS = 50;
/**
 * A reading takes microseconds. Without one, what writers take is unknown. With a cancel, which takes up to 0.8 s, this stays under the 2 s
 * of writes that the reserve covers.
 */
const BLIND_LIMIT_MS = 500;
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
  readonly log: Logger;
}

/** `otherReason`: one more reason to cancel, besides the caller's signal and the filesystem's own figures. */
export async function runWatched(
  host: WatchingHost,
  volume: MountedFilesystem,
  opened: OpenMount,
  control: ShrinkControl,
  start: () => Promise<Finished>,
  otherReason: () => string | undefined = () => undefined,
): Promise<WatchedEnd> {
  const end = new AbortController();
  const running: RunningCommand = { command: start(), ended: end.signal };
  const noteEnd = (): void => end.abort();
  running.command.then(noteEnd, noteEnd); // its result is awaited at the end
  try {
    const cancelled = await watch(opened, control, otherReason, running);
    await stop(host, volume, running);
    return { finished: await running.command, cancelled };
  } catch (error) {
    // A command that is not watched must not go on.
    await stop(host, volume, running);
    throw error;
  }
}

interface RunningCommand {
  readonly command: Promise<Finished>;
  /** Aborted by its end: what waits for that each 50 ms of a day leaves nothing behind at the promise. */
  readonly ended: AbortSignal;
}

/** Why the command must be cancelled; undefined when it has ended before that. */
async function watch(
  opened: OpenMount,
  { signal, reserveBytes }: ShrinkControl,
  otherReason: () => string | undefined,
  { ended }: RunningCommand,
): Promise<string | undefined> {
  const over = AbortSignal.any([signal, ended]);
  const samples: SpaceSample[] = [];
  for (;;) {
    await pause(WATCH_INTERVAL_MS, over);
    const reading = over.aborted ? undefined : await unlessAborted(inTime(opened.read()), over);
    if (ended.aborted) return undefined;
    if (signal.aborted) return stoppedMessage(signal);
    if (reading === undefined || reading === "late") return `it cannot be read: no reading for ${BLIND_LIMIT_MS} ms`;
    const reason = cancelReason(addSample(samples, reading), reserveBytes()) ?? otherReason();
    if (reason !== undefined) return reason;
  }
}

function inTime(reading: Promise<FilesystemReading>): Promise<FilesystemReading | "late"> {
  return withTimeLimit<FilesystemReading | "late">(reading, BLIND_LIMIT_MS, () => "late");
}

/**
 * Cancels until the command has ended, which has a time limit of its own. The command may not have reached the kernel yet, where there is
 * nothing to cancel; a cancel that fails is tried again. What another process starts after the command's own operation was cancelled goes
 * on.
 */
async function stop(host: WatchingHost, volume: MountedFilesystem, running: RunningCommand): Promise<void> {
  let cancelled = false;
  while (!running.ended.aborted) {
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
    await pause(waitMs, running.ended);
  }
}

function addSample(
  samples: SpaceSample[],
  { takenMs: atMs, availableBytes, dataBytes }: FilesystemReading,
): SpaceSample[] {
  samples.push({ atMs, availableBytes, dataBytes });
  while ((samples[0]?.atMs ?? atMs) < atMs - RATE_WINDOW_MS) samples.shift();
  return samples;
}
