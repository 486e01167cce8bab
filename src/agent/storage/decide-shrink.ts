// What a shrink does next, and when it must stop at once. Pure: sizes and samples in, a move or a reason out. Both adapters of
// the storage port follow it, so that the simulated disk refuses what a real one refuses.
import { formatBytes, MIB } from "../../contracts/quantities/quantity.ts";
import { coveringGrains, type ShrinkResult } from "./storage.ts";

/** One step of a shrink: large enough to be worth its commit, small enough to be cancelled. */
export const STEP_MIN_BYTES = 256 * MIB;
export const STEP_MAX_BYTES = 1024 * MIB;
/** btrfs refuses smaller devices. */
export const DEVICE_MIN_BYTES = 256 * MIB;
/** Steps smaller than this do not pay, unless they end at the target. */
const GAIN_MIN_BYTES = 64 * MIB;
const FLOOR_GRAIN_BYTES = MIB;
/**
 * Chunks emptier than this are repacked where their places, and not their contents, hold a filesystem up; in this order, each
 * at most once. Never more: 90 raised the floor again. Never metadata: shrinks after that aborted the transaction.
 */
const BALANCE_USAGE_PERCENTS = [0, 25, 50] as const;

/** With more of them nothing is moved, although none is a snapshot: files that one has may share the extents of another one's. */
export const MOVED_SUBVOLUMES_MAX = 16;

/** Of a btrfs. */
export interface Subvolumes {
  /** All that are not the top level. */
  readonly others: number;
  /** Of the others. */
  readonly snapshots: number;
  /** Not among the others, not cleaned up yet, and possibly snapshots. */
  readonly deleted: number;
}

/** What moved data may still take of the place where a member lies: the filesystem of a loop file, a thin pool. */
export interface MemberRoom {
  /** For a message: "thin pool vg1/pool". */
  readonly place: string;
  readonly freeBytes: number;
  /** Of the member: it may take no more than this. */
  readonly holeBytes: number;
  /** After so long freeBytes shows what was taken or given back; 0: at once. */
  readonly lagMs: number;
}

export interface ShrinkFacts {
  readonly sizeBytes: number;
  readonly targetBytes: number;
  readonly availableBytes: number;
  readonly usedBytes: number;
  readonly reserveBytes: number;
  /** What the filesystem itself calls its smallest safe size at this moment (btrfs: min-dev-size). */
  readonly filesystemMinBytes: number;
  /** No step is larger: STEP_MAX_BYTES, or STEP_MIN_BYTES once moving data has brought a large step to the reserve. */
  readonly stepMaxBytes: number;
  /** Sizes of the member are whole multiples. */
  readonly grainBytes: number;
  /** How many of the balances this shrink has had. */
  readonly balancesDone: number;
  /** Where the member lies, less what others' steps may take there; undefined: all of its bytes are its own. */
  readonly room: MemberRoom | undefined;
  /** What its subvolumes may share is not moved; undefined: what is in the way is. */
  readonly immovable: Immovable | undefined;
}

export interface Immovable {
  /** The beginning of a sentence for people. */
  readonly reason: string;
  /** Where its last chunk ends. */
  readonly endBytes: number;
}

/** Free where the member lies before a step begins, beyond what the step moves: others write there, too. */
const ROOM_SPARE_BYTES = 512 * MIB;
/** Under this a step that runs is cancelled: until the cancel is done the kernel moves on, at the speed of the disk. */
const ROOM_LEAST_BYTES = 256 * MIB;

export type ShrinkMove =
  | { readonly kind: "reached" }
  /** movedBytes: at most so many are moved, here and below. */
  | { readonly kind: "resize"; readonly toBytes: number; readonly movedBytes: number }
  | { readonly kind: "balance"; readonly usagePercent: number; readonly movedBytes: number }
  | { readonly kind: "floor"; readonly floorBytes: number; readonly message: string }
  /** Nothing is known of the floor: the place where the member lies is full. */
  | { readonly kind: "no-room"; readonly message: string };

export function decideShrinkMove(facts: ShrinkFacts): ShrinkMove {
  const { sizeBytes, targetBytes, filesystemMinBytes } = facts;
  if (sizeBytes <= targetBytes) return { kind: "reached" };
  const spaceFloorBytes = roundUp(Math.max(facts.usedBytes + facts.reserveBytes, DEVICE_MIN_BYTES));
  const floorBytes = Math.max(spaceFloorBytes, roundUp(filesystemMinBytes), facts.immovable?.endBytes ?? 0);
  const wantedBytes = Math.max(targetBytes, sizeBytes - Math.min(stepBytes(facts), roomForStep(facts)));
  const usagePercent = BALANCE_USAGE_PERCENTS[facts.balancesDone];
  const roomForBalance = worthAStep(facts, Math.max(wantedBytes, spaceFloorBytes));
  const mayBalance = facts.immovable === undefined && wantedBytes < filesystemMinBytes && roomForBalance;
  if (mayBalance && usagePercent !== undefined) {
    const movedBytes = usagePercent === 0 ? 0 : facts.usedBytes;
    return hasRoom(facts, movedBytes) ? { kind: "balance", usagePercent, movedBytes } : noRoom(facts);
  }
  const toBytes = coveringGrains(Math.max(wantedBytes, floorBytes), facts.grainBytes);
  if (worthAStep(facts, toBytes)) {
    const movedBytes = Math.min(sizeBytes - toBytes + movingBytes(facts), facts.usedBytes);
    return hasRoom(facts, movedBytes) ? { kind: "resize", toBytes, movedBytes } : noRoom(facts);
  }
  return { kind: "floor", floorBytes, message: floorMessage(facts, floorBytes) };
}

/** Of one chunk: a step moves each whole that ends past the new end, and one that is being moved takes no writes. */
function movingBytes({ sizeBytes }: Pick<ShrinkFacts, "sizeBytes">): number {
  return Math.min(STEP_MAX_BYTES, sizeBytes / 10);
}

/** While a step runs its bytes are gone already. */
function stepBytes({ sizeBytes, availableBytes, reserveBytes, stepMaxBytes }: ShrinkFacts): number {
  const spareBytes = availableBytes - reserveBytes - movingBytes({ sizeBytes });
  return Math.min(stepMaxBytes, Math.max(STEP_MIN_BYTES, Math.floor(spareBytes / STEP_MIN_BYTES) * STEP_MIN_BYTES));
}

/** The largest step whose data all fits where the member lies; the smallest there is, where even that does not. */
function roomForStep(facts: ShrinkFacts): number {
  if (hasRoom(facts, facts.sizeBytes)) return STEP_MAX_BYTES;
  const spareBytes = (facts.room?.freeBytes ?? 0) - ROOM_SPARE_BYTES - movingBytes(facts);
  const steps = Math.floor(spareBytes / STEP_MIN_BYTES);
  return Math.max(1, steps) * STEP_MIN_BYTES;
}

/** `movedBytes`: at most so many. What is moved goes to free places of the filesystem, which may be holes of the member. */
function hasRoom({ room, usedBytes }: ShrinkFacts, movedBytes: number): boolean {
  if (room === undefined || room.holeBytes === 0) return true;
  return room.freeBytes >= Math.min(movedBytes, usedBytes, room.holeBytes) + ROOM_SPARE_BYTES;
}

function noRoom({ sizeBytes, targetBytes, room }: ShrinkFacts): ShrinkMove {
  const message = `the size stays at ${formatBytes(sizeBytes)}, not ${formatBytes(targetBytes)}: moved data needs room in ${room?.place}, which has ${formatBytes(room?.freeBytes ?? 0)} free; free space there`;
  return { kind: "no-room", message };
}

/** Why a step that runs must be cancelled: another process has filled the place where the member lies. */
export function roomProblem(room: MemberRoom | undefined): string | undefined {
  if (room === undefined || room.holeBytes === 0 || room.freeBytes >= ROOM_LEAST_BYTES) return undefined;
  return `${room.place} has ${formatBytes(room.freeBytes)} free, and data that is moved takes new room there; free space there`;
}

function worthAStep({ sizeBytes, targetBytes }: ShrinkFacts, toBytes: number): boolean {
  const gainBytes = sizeBytes - toBytes;
  return gainBytes > 0 && (toBytes === targetBytes || gainBytes >= GAIN_MIN_BYTES);
}

function floorMessage(facts: ShrinkFacts, floorBytes: number): string {
  const { sizeBytes, targetBytes, usedBytes, reserveBytes, filesystemMinBytes, immovable } = facts;
  if (immovable !== undefined && immovable.endBytes === floorBytes)
    return `the size stays at ${formatBytes(sizeBytes)}, not ${formatBytes(targetBytes)}: ${immovable.reason}, and its last chunk ends at ${formatBytes(floorBytes)}`;
  return `the size stays at ${formatBytes(sizeBytes)}, not ${formatBytes(targetBytes)}: ${formatBytes(floorBytes)} is the least that is safe (used ${formatBytes(usedBytes)}, reserve ${formatBytes(reserveBytes)}, filesystem's minimum ${formatBytes(filesystemMinBytes)})`;
}

/** Why no data is moved, as the beginning of a sentence for people; undefined: it may be. */
export function sharingProblem({ others, snapshots, deleted }: Subvolumes): string | undefined {
  const why = "since that may force it read-only";
  if (snapshots + deleted > 0)
    return `it has ${counted(snapshots, "snapshot")} and ${counted(deleted, "deleted subvolume")}; with any of them no data is moved, ${why}`;
  const subvolumes = 1 + others;
  if (subvolumes <= MOVED_SUBVOLUMES_MAX) return undefined;
  return `it has ${subvolumes} subvolumes; with more than ${MOVED_SUBVOLUMES_MAX} no data is moved, ${why}`;
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / FLOOR_GRAIN_BYTES) * FLOOR_GRAIN_BYTES;
}

export function stoppedMessage(signal: AbortSignal): string {
  return `it was stopped: ${String(signal.reason)}`;
}

/** How a shrink ends that was stopped: its last step may have reached the target before the stop. */
export function stoppedShrink(sizeBytes: number, targetBytes: number, signal: AbortSignal): ShrinkResult {
  if (sizeBytes <= targetBytes) return { outcome: "Succeeded", sizeBytes };
  return { outcome: "Cancelled", sizeBytes, message: stoppedMessage(signal) };
}

const FOREIGN_CANCELS_MAX = 1;

/**
 * What follows a step that another process has cancelled, after `foreignCancels` such steps in a row. The kernel holds a cancel that comes
 * between two chunks, and ends the next operation with it. A step after a restart then meets the cancel that was sent to the last one. A
 * user who means it cancels the next step, too.
 */
export function afterForeignCancel(foreignCancels: number, sizeBytes: number): ShrinkResult | "again" {
  if (foreignCancels < FOREIGN_CANCELS_MAX) return "again";
  return {
    outcome: "Cancelled",
    sizeBytes,
    message: `another program has cancelled ${foreignCancels + 1} steps in a row`,
  };
}

export interface SpaceSample {
  /** Monotonic. */
  readonly atMs: number;
  readonly availableBytes: number;
  /** Written and announced by writers; moving a chunk raises it for a moment too. */
  readonly dataBytes: number;
}

/** How long samples matter: the writer's rate is taken over this window. */
export const RATE_WINDOW_MS = 1000;
/** The time that a cancel may take until the step is undone: at most 0.8 s was measured. */
const CANCEL_MS = 1000;

/** Why the running step must be cancelled now; undefined while it may go on. Samples in order, the newest last. */
export function cancelReason(samples: readonly SpaceSample[], reserveBytes: number): string | undefined {
  const newest = samples.at(-1);
  if (newest === undefined) return undefined;
  const { availableBytes } = newest;
  if (availableBytes < reserveBytes)
    return `${formatBytes(availableBytes)} are available, under the reserve of ${formatBytes(reserveBytes)}`;
  const bytesPerSecond = writerBytesPerSecond(samples);
  if (availableBytes - (bytesPerSecond * CANCEL_MS) / 1000 >= reserveBytes) return undefined;
  return (
    `${formatBytes(availableBytes)} are available and a writer takes ${formatBytes(bytesPerSecond)}/s, so the reserve of ` +
    `${formatBytes(reserveBytes)} would be reached`
  );
}

/**
 * From the lowest value in each half of the window: a chunk that is moved counts twice for a moment and then no more, while
 * what a writer takes stays. 0 as long as the window is not full.
 */
function writerBytesPerSecond(samples: readonly SpaceSample[]): number {
  const endMs = samples.at(-1)?.atMs ?? 0;
  const inWindow = samples.filter(({ atMs }) => atMs > endMs - RATE_WINDOW_MS);
  const startMs = inWindow[0]?.atMs ?? endMs;
  const isLater = ({ atMs }: SpaceSample): boolean => atMs > endMs - RATE_WINDOW_MS / 2;
  const earlier = inWindow.filter((sample) => !isLater(sample));
  if (earlier.length === 0 || endMs - startMs < RATE_WINDOW_MS * 0.8) return 0;
  const lowest = (part: readonly SpaceSample[]): number => Math.min(...part.map(({ dataBytes }) => dataBytes));
  const growthBytes = lowest(inWindow.filter(isLater)) - lowest(earlier);
  return Math.max(0, Math.round(growthBytes / (RATE_WINDOW_MS / 2 / 1000)));
}
