// The shrink of a mounted btrfs: ask, step down under watch, cut the member, again. It never asks the kernel for less than
// min-dev-size, which is what keeps the filesystem from being forced read-only.

import { formatBytes, MIB } from "../../../contracts/quantities/quantity.ts";
import { unlessAborted } from "../../../platform/process/async/limited-wait.ts";
import { pause } from "../../../platform/process/async/pause.ts";
import {
  busy,
  metExclusive,
  metSwapfile,
  othersOperation,
  stopExclusiveOperation,
} from "../btrfs/exclusive-operation.ts";
import { countSubvolumes, describeSwapfiles, foreignProfile, lastChunkEnd } from "../btrfs/immovable-data.ts";
import { runWatched, type WatchedEnd } from "../btrfs/watched-command.ts";
import {
  afterForeignCancel,
  decideShrinkMove,
  type Immovable,
  type MemberRoom,
  roomProblem,
  type ShrinkFacts,
  type ShrinkMove,
  STEP_MAX_BYTES,
  STEP_MIN_BYTES,
  sharingProblem,
  stoppedShrink,
} from "../decide-shrink.ts";
import { syncFilesystem, trim } from "../filesystem/fresh-reading.ts";
import type { FilesystemReading, OpenMount } from "../filesystem/mount-reader.ts";
import {
  type Mounted,
  type MountedFilesystem,
  type ShrinkControl,
  type ShrinkResult,
  wholeGrains,
} from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished, type Tools } from "../tools.ts";
import type { BlockHost, MemberCuts, MemberNames, MemberSizes, OneMemberVolume } from "./block-member.ts";
import { assertWritable, cutMember, onlyDevid, readOnlyError, requireMember } from "./resize-member.ts";

const STEP_LIMIT_MS = 600_000;
/** A writer is at work that takes at least 16 MiB/s. */
const WRITER_LOOK_MS = 250;
const WRITER_SEEN_BYTES = 4 * MIB;
/** Written during one step: a writer was at work. */
const WRITTEN_IN_STEP_BYTES = 16 * MIB;
// Asked of a device that is not there, btrfs answers this instead of failing.
const MIN_DEV_SIZE_OF_NOTHING = 2 ** 20;

interface Shrink {
  readonly host: Pick<BlockHost<OneMemberVolume>, "tools" | "log" | "moving">;
  readonly volume: MountedFilesystem;
  /** Makes the member end where the filesystem ends. Returns its size, which is unchanged where the signal stopped the shrink first. */
  readonly cut: () => Promise<number>;
  readonly grainBytes: number;
  readonly devid: string;
  /** Where the member lies, at this moment. */
  readonly room: () => MemberRoom | undefined;
  readonly immovable: () => Promise<Immovable | undefined>;
  readonly targetBytes: number;
  readonly control: ShrinkControl;
  readonly opened: OpenMount;
}

export async function shrinkBtrfs<V extends OneMemberVolume>(
  host: BlockHost<V, MemberNames<V> & MemberSizes<V> & MemberCuts<V>>,
  volume: Mounted<V>,
  sizeBytes: number,
  control: ShrinkControl,
): Promise<ShrinkResult> {
  if (volume.fsType !== "btrfs")
    throw new StorageError("CommandFailed", `${volume.fsType} of ${volume.handle} cannot shrink while it is mounted`);
  assertWritable(volume);
  const grainBytes = host.members.grainBytes(volume);
  const targetBytes = wholeGrains(sizeBytes, grainBytes);
  // The signal came while the shrink waited for its turn: the operation that goes first must not wait for a sync.
  if (control.signal.aborted) return stoppedShrink(requireMember(host, volume), targetBytes, control.signal);
  await host.members.endEarlierCut(volume);
  const others = await othersOperation(host.tools, volume);
  if (others !== undefined) return busy(volume, requireMember(host, volume), others);
  await stopExclusiveOperation(host.tools, volume);
  await syncFilesystem(host.tools, volume);
  const opened = await host.mounts.open(volume);
  try {
    const devid = onlyDevid(volume);
    const foreign = foreignProfile(volume.fsid);
    if (foreign !== undefined) return await foreignFloor(opened, requireMember(host, volume), foreign);
    const cut = (): Promise<number> => cutMember(host, volume, devid, opened, control.signal);
    const room = (): MemberRoom | undefined => host.members.room(volume);
    const immovable = (): Promise<Immovable | undefined> => readImmovable(host.tools, volume);
    return await walkDown({ host, volume, cut, grainBytes, devid, room, immovable, targetBytes, control, opened });
  } finally {
    opened.close();
  }
}

interface Progress {
  readonly sizeBytes: number;
  readonly balancesDone: number;
  readonly stepMaxBytes: number;
  /** Steps in a row that another process has cancelled. */
  readonly foreignCancels: number;
  /** What it holds no more has been given back to where the member lies. */
  readonly trimmed: boolean;
}

const NOTHING_DONE = { balancesDone: 0, stepMaxBytes: STEP_MAX_BYTES, foreignCancels: 0, trimmed: false };

// Ends: a resize makes the size smaller by a step's worth or the next steps smaller; balances, foreign cancels and the trim are counted.
async function walkDown(shrink: Shrink): Promise<ShrinkResult> {
  const { control, opened } = shrink;
  let progress: Progress = { sizeBytes: await shrink.cut(), ...NOTHING_DONE };
  while (!control.signal.aborted) {
    // A user may have started to convert it between two steps.
    const foreign = foreignProfile(shrink.volume.fsid);
    if (foreign !== undefined) return foreignFloor(opened, progress.sizeBytes, foreign);
    const { sizeBytes: fromBytes, balancesDone, foreignCancels } = progress;
    // An operation that goes first does not wait for readings: they may write out all that is dirty.
    const before = await unlessAborted(opened.read(), control.signal);
    if (before === undefined) break;
    const asked = await unlessAborted(gather(shrink, before, progress), control.signal);
    if (asked === undefined) break;
    // Nothing is awaited from here until the step has taken its part.
    const room = shrink.host.moving.left(shrink.room());
    const move = decideShrinkMove({ ...asked, room });
    if (move.kind === "reached") return { outcome: "Succeeded", sizeBytes: fromBytes };
    if (move.kind === "floor") return floor(shrink, fromBytes, move.floorBytes, move.message);
    if (move.kind === "no-room") {
      if (progress.trimmed) return passingFloor(fromBytes, move.message);
      await giveBack(shrink, room);
      progress = { ...progress, trimmed: true };
      continue;
    }
    const ended = await takeStep(shrink, move, room);
    assertWritable(shrink.volume);
    const sizeBytes = await shrink.cut();
    if (sizeBytes < fromBytes) control.onStep(sizeBytes);
    const verdict = await judgeStep(shrink, { move, before, fromBytes, ended, foreignCancels }, sizeBytes);
    if (typeof verdict === "object") return verdict;
    progress = {
      ...progress,
      sizeBytes,
      balancesDone: balancesDone + (move.kind === "balance" ? 1 : 0),
      stepMaxBytes: verdict === "smaller steps" ? STEP_MIN_BYTES : progress.stepMaxBytes,
      foreignCancels: verdict === "again" ? foreignCancels + 1 : 0,
    };
  }
  return stoppedShrink(progress.sizeBytes, shrink.targetBytes, control.signal);
}

async function gather(
  { host, volume, devid, immovable, targetBytes, grainBytes, control }: Shrink,
  { capacityBytes, availableBytes }: FilesystemReading,
  progress: Progress,
): Promise<Omit<ShrinkFacts, "room">> {
  const args = ["inspect-internal", "min-dev-size", "--id", devid, volume.mountPath];
  const task = `asking btrfs ${volume.fsid} of ${volume.handle} for its smallest safe size`;
  const answer = expectSuccess(await host.tools.query("btrfs", args), task);
  const filesystemMinBytes = Number(/^(\d+) bytes/.exec(answer)?.[1] ?? 0);
  if (filesystemMinBytes <= MIN_DEV_SIZE_OF_NOTHING)
    throw new StorageError("CommandFailed", `${task}: for device ${devid} it says "${answer.trim()}"`);
  const usedBytes = capacityBytes - availableBytes;
  const reserveBytes = control.reserveBytes();
  const space = { availableBytes, usedBytes, reserveBytes, filesystemMinBytes };
  return { ...progress, targetBytes, grainBytes, ...space, immovable: await immovable() };
}

/** Read before each step: users make snapshots at any time. */
async function readImmovable(tools: Tools, volume: Mounted<OneMemberVolume>): Promise<Immovable | undefined> {
  const reason = sharingProblem(await countSubvolumes(tools, volume));
  return reason === undefined ? undefined : { reason, endBytes: await lastChunkEnd(tools, volume) };
}

type Step = Extract<ShrinkMove, { readonly kind: "resize" | "balance" }>;

async function takeStep(shrink: Shrink, move: Step, room: MemberRoom | undefined): Promise<WatchedEnd> {
  const release = shrink.host.moving.take(room, move.movedBytes);
  try {
    return await (move.kind === "balance" ? balance(shrink, move.usagePercent) : resize(shrink, move.toBytes));
  } finally {
    release();
  }
}

/** Perhaps only what was deleted fills the place where the member lies. Not every device takes it: then that is full as before. */
async function giveBack({ host, volume, control }: Shrink, room: MemberRoom | undefined): Promise<void> {
  try {
    await trim(host.tools, volume, control.signal);
    await pause(room?.lagMs ?? 0, control.signal);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    host.log.warn({ volume: volume.handle, err: error }, "what it holds no more could not be given back");
  }
}

function resize(shrink: Shrink, toBytes: number): Promise<WatchedEnd> {
  const args = ["filesystem", "resize", `${shrink.devid}:${toBytes}`, shrink.volume.mountPath];
  return watched(shrink, () => shrink.host.tools.run("shrink/resize-filesystem", "btrfs", args, STEP_LIMIT_MS));
}

function balance(shrink: Shrink, usagePercent: number): Promise<WatchedEnd> {
  const args = ["balance", "start", `-dusage=${usagePercent}`, shrink.volume.mountPath];
  return watched(shrink, () => shrink.host.tools.run("shrink/balance", "btrfs", args, STEP_LIMIT_MS));
}

function watched({ host, volume, opened, control, room }: Shrink, start: () => Promise<Finished>): Promise<WatchedEnd> {
  return runWatched(host, volume, opened, control, start, () => roomProblemNow(room));
}

/** Without an answer of lvmd a running step goes on: there was room for it when it began. */
function roomProblemNow(room: () => MemberRoom | undefined): string | undefined {
  try {
    return roomProblem(room());
  } catch (error) {
    if (error instanceof StorageError && error.code === "WaitingForMember") return undefined;
    throw error;
  }
}

interface StepTaken {
  readonly move: Step;
  readonly before: FilesystemReading;
  readonly fromBytes: number;
  readonly ended: WatchedEnd;
  /** Before this step. */
  readonly foreignCancels: number;
}

type Verdict = ShrinkResult | "go on" | "smaller steps" | "again";

/** How the shrink ends with this step, or how it goes on. */
async function judgeStep(shrink: Shrink, step: StepTaken, sizeBytes: number): Promise<Verdict> {
  const { finished, cancelled } = step.ended;
  if (cancelled !== undefined) return await judgeCancelled(shrink, step, sizeBytes, cancelled);
  if (finished.exitCode === 0) return "go on";
  if (metExclusive(finished.stderr)) return busy(shrink.volume, sizeBytes, finished.stderr.trim());
  if (metSwapfile(finished.stderr))
    return foreignFloor(shrink.opened, sizeBytes, describeSwapfiles(shrink.volume.fsid));
  // The kernel refuses from the beginning of a remount on, and shows it at its end.
  if (/read-only file system/i.test(finished.stderr)) throw readOnlyError(shrink.volume);
  if (wasForeignCancel(step, finished)) return afterForeignCancel(step.foreignCancels, sizeBytes);
  if (!/no space left/i.test(finished.stderr))
    expectSuccess(finished, `shrinking ${shrink.volume.handle} from ${formatBytes(step.fromBytes)}`);
  // A balance that found no room has changed nothing; the next move is decided without it.
  if (step.move.kind === "balance") return "go on";
  return floor(shrink, sizeBytes, sizeBytes, finished.stderr.trim());
}

/** A balance that meets a cancel at its very beginning ends with EINVAL instead (Linux, fs/btrfs/volumes.c: btrfs_balance). */
function wasForeignCancel({ move }: StepTaken, { stderr }: Finished): boolean {
  return /operation cancell?ed/i.test(stderr) || (move.kind === "balance" && /invalid argument/i.test(stderr));
}

/** Cancelled, by its caller or by the watcher: for a writer, or for the room that the moved chunk itself took. */
async function judgeCancelled(shrink: Shrink, step: StepTaken, sizeBytes: number, message: string): Promise<Verdict> {
  const { control } = shrink;
  if (sizeBytes <= shrink.targetBytes) return "go on"; // the step was quicker than the cancel
  const cancelled: ShrinkResult = { outcome: "Cancelled", sizeBytes, message };
  const writerSeen = await sawWriter(shrink, step);
  if (control.signal.aborted || roomProblemNow(shrink.room) !== undefined) return cancelled;
  const writtenBytes = await writtenSince(shrink, step);
  if (writerSeen && !wasOwnDip(step, writtenBytes, control.reserveBytes())) return cancelled;
  if (step.move.kind !== "resize") return "go on";
  if (step.fromBytes - step.move.toBytes > STEP_MIN_BYTES) return "smaller steps";
  // Not the filesystem's floor alone: with the writer quiet it may go further another time.
  if (writerSeen) return cancelled;
  return passingFloor(sizeBytes, `${message}, while data was moved`);
}

/** With its use: nothing smaller is asked for until that has changed, or a day has passed. */
async function foreignFloor(opened: OpenMount, sizeBytes: number, why: string): Promise<ShrinkResult> {
  const { capacityBytes, availableBytes } = await opened.read();
  const message = `the size stays at ${formatBytes(sizeBytes)}: ${why}`;
  return {
    outcome: "FloorReached",
    sizeBytes,
    floorBytes: sizeBytes,
    usedBytes: capacityBytes - availableBytes,
    message,
  };
}

async function floor(
  { opened }: Shrink,
  sizeBytes: number,
  floorBytes: number,
  message: string,
): Promise<ShrinkResult> {
  const { capacityBytes, availableBytes } = await opened.read();
  return { outcome: "FloorReached", sizeBytes, floorBytes, usedBytes: capacityBytes - availableBytes, message };
}

// A writer that still writes, or has written during the step. Until the next commit a moved chunk counts twice, as if it had been written.
// Where that leaves the question open a commit answers it; an extend does not wait for this commit.
async function sawWriter(shrink: Shrink, step: StepTaken): Promise<boolean> {
  const { host, volume, control, opened } = shrink;
  const { dataBytes } = await opened.read();
  await pause(WRITER_LOOK_MS, control.signal);
  if ((await opened.read()).dataBytes - dataBytes >= WRITER_SEEN_BYTES) return true;
  if (control.signal.aborted || (await writtenSince(shrink, step)) < WRITTEN_IN_STEP_BYTES) return false;
  await unlessAborted(syncFilesystem(host.tools, volume), control.signal);
  return (await writtenSince(shrink, step)) >= WRITTEN_IN_STEP_BYTES;
}

async function writtenSince({ opened }: Shrink, { before }: StepTaken): Promise<number> {
  return Math.max(0, (await opened.read()).dataBytes - before.dataBytes);
}

// While a chunk is moved, its free space takes no writes. Without any writer's help that can reach the reserve: then trying
// again later would end the same way.
function wasOwnDip({ move, before, fromBytes }: StepTaken, writtenBytes: number, reserveBytes: number): boolean {
  const stepBytes = move.kind === "resize" ? fromBytes - move.toBytes : 0;
  return before.availableBytes - stepBytes - writtenBytes >= reserveBytes;
}

/** Without what is used: the policy-engine may ask again before the use has changed. */
function passingFloor(sizeBytes: number, message: string): ShrinkResult {
  return { outcome: "FloorReached", sizeBytes, floorBytes: sizeBytes, message };
}
