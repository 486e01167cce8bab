// Whether what was measured may be believed. The first thing a decision asks: absent, stale, impossible or contradictory figures
// never change a size, and "not measured" is never read as 0.

import { copiesOf } from "../../contracts/formulas/data-profiles.ts";
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { Facts, FilesystemFacts, ReadingSource, ReceivedReading } from "./facts.ts";

export interface Unreliable {
  readonly reason: HoldReason;
  readonly message: string;
}

/** A node's clock that is further ahead of the engine's is wrong, or the engine's is. */
export const MAX_AHEAD_MS = 5000;
/** One that is further behind; more than ahead, since what a network delays looks like it. */
const MAX_BEHIND_MS = 10_000;
/** A reading is stale after this many intervals of its source … */
const FRESH_INTERVALS = 3;
/** … but never before this. */
const MIN_FRESH_MS = 10_000;
/** btrfs shows its devices' whole size; rounding takes less than this. */
const BTRFS_OVERHEAD_RATIO = 0.01;
/** What inode tables, journals and logs take of a small ext4 or xfs. More than this is a resize that statfs does not show yet. */
const FORMAT_OVERHEAD_RATIO = 0.3;

/** Why the records of a volume (not its readings) cannot be used. Undefined: they can. */
export function unreliableRecords({ nowMs, monotonicMs, claim, filesystem, node }: Facts): Unreliable | undefined {
  if (!(nowMs >= 0 && nowMs <= 8.64e15)) return contradiction(`the time of the decision is ${nowMs}`);
  if (!Number.isFinite(monotonicMs)) return contradiction(`the monotonic time of the decision is ${monotonicMs}`);
  if (!(isBytes(filesystem.sizeBytes) && filesystem.sizeBytes > 0))
    return contradiction(`a size of ${filesystem.sizeBytes} bytes is not possible`);
  if (!(isBytes(claim.nominalBytes) && claim.nominalBytes > 0 && isBytes(claim.initialSizeBytes)))
    return contradiction(`a request of ${claim.nominalBytes} bytes is not possible`);
  if (node !== undefined && !isBytes(node.freeBytes))
    return contradiction(`${node.freeBytes} free bytes on node ${node.name} are not possible`);
  return undefined;
}

/** Why the readings cannot be used for a decision now. Undefined: they can. Assumes that no operation runs. */
export function unreliableReading(facts: Facts): Unreliable | undefined {
  const { monotonicMs, claim, filesystem } = facts;
  if (!filesystem.mounted)
    return { reason: "NotMounted", message: "not mounted: nothing measures it, and no size is changed" };
  const { reading } = filesystem;
  if (reading === undefined) return stale("nothing has been measured yet");
  return (
    unreliableFigures(monotonicMs, reading) ??
    unreliableOrder(filesystem, reading) ??
    unreliableCapacity(filesystem, reading, claim.fsType)
  );
}

/** The same without what a running operation upsets: for the one thing that is decided while one runs. */
export function unreliableFigures(monotonicMs: number, reading: ReceivedReading): Unreliable | undefined {
  const ageMs = monotonicMs - reading.takenMs;
  if (!(ageMs >= 0)) return contradiction(ageText(ageMs));
  const freshMs = freshMsOf(reading);
  if (!(ageMs <= freshMs))
    return stale(
      `the newest reading is older than ${formatDuration(freshMs)}; it came from ${SOURCES[reading.source]}`,
    );
  const { capacityBytes, availableBytes, usedBytes } = reading;
  if (!(isBytes(capacityBytes) && isBytes(availableBytes) && isBytes(usedBytes) && capacityBytes > 0))
    return contradiction(
      `capacity ${capacityBytes}, available ${availableBytes}, used ${usedBytes} bytes: not possible`,
    );
  if (usedBytes !== capacityBytes - availableBytes)
    return contradiction(`used ${usedBytes} is not capacity ${capacityBytes} less available ${availableBytes} bytes`);
  return unreliableRates(reading) ?? unreliableInodes(reading);
}

/** Neither stale nor of the future. */
export function isFresh(reading: ReceivedReading, monotonicMs: number): boolean {
  const ageMs = monotonicMs - reading.takenMs;
  return ageMs >= 0 && ageMs <= freshMsOf(reading);
}

function freshMsOf({ intervalMs }: ReceivedReading): number {
  return Math.max(MIN_FRESH_MS, FRESH_INTERVALS * intervalMs);
}

function ageText(ageMs: number): string {
  if (!Number.isFinite(ageMs)) return "the newest reading has no time";
  return `the newest reading is from ${formatDuration(-ageMs)} after this decision: not possible`;
}

/**
 * How the clock of the reading's node and the engine's differ, where they do. It stops no extend, since ages need neither; but
 * what one of them has dated (windows, cooldowns, history after a restart) cannot be trusted to make anything smaller.
 */
export function differenceOfClocks({ aheadMs }: Pick<ReceivedReading, "aheadMs">): string | undefined {
  if (aheadMs <= MAX_AHEAD_MS && aheadMs >= -MAX_BEHIND_MS) return undefined;
  if (!Number.isFinite(aheadMs)) return "has no time that can be compared with the policy-engine's";
  return `is ${formatDuration(Math.abs(aheadMs))} ${aheadMs > 0 ? "ahead of" : "behind"} the policy-engine's`;
}

const SOURCES: Readonly<Record<ReadingSource, string>> = { agent: "the node's agent", prometheus: "Prometheus" };

function unreliableRates({ growthBytesPerSecond: growth = 0, peakWriteBytesPerSecond: peak = 0 }: ReceivedReading) {
  if (Number.isFinite(growth) && Number.isFinite(peak) && peak >= 0) return undefined;
  return contradiction(`growth of ${growth} and a peak of ${peak} bytes a second are not possible`);
}

function unreliableInodes({ inodesTotal: total = 0, inodesUsed: used = 0 }: ReceivedReading): Unreliable | undefined {
  if (isBytes(total) && isBytes(used) && (total === 0 || used <= total)) return undefined;
  return contradiction(`${used} of ${total} inodes used is not possible`);
}

// A resize changes capacity and use at different instants: only a reading from after its end is of one piece. And one that
// shows no more than before an extend would extend again and again.
function unreliableOrder(
  { lastOperation, capacityAtExtendBytes }: FilesystemFacts,
  reading: ReceivedReading,
): Unreliable | undefined {
  if (lastOperation === undefined) return undefined;
  if (!(reading.takenMs > lastOperation.endedAtMs))
    return contradiction(
      `the newest reading is from before the last ${lastOperation.kind} ended; waiting for the next`,
    );
  if (capacityAtExtendBytes === undefined || reading.capacityBytes > capacityAtExtendBytes) return undefined;
  return contradiction(
    `the volume was extended, and the filesystem still shows ${formatBytes(reading.capacityBytes)}: look at the driver on its node`,
  );
}

function unreliableCapacity(
  { sizeBytes }: FilesystemFacts,
  reading: ReceivedReading,
  fsType: string,
): Unreliable | undefined {
  const overheadRatio = fsType === "btrfs" ? BTRFS_OVERHEAD_RATIO : FORMAT_OVERHEAD_RATIO;
  // Ratios are statfs', sizes are the devices': where data has copies, each byte of the one takes several of the other.
  const shownBytes = reading.capacityBytes * copiesOf(reading.dataProfiles);
  if (shownBytes <= sizeBytes && shownBytes >= sizeBytes * (1 - overheadRatio)) return undefined;
  return contradiction(
    `the filesystem reports ${formatBytes(shownBytes)}, but its devices have ${formatBytes(sizeBytes)}: a resize is still running or has failed`,
  );
}

function isBytes(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function contradiction(message: string): Unreliable {
  return { reason: "MetricsInconsistent", message };
}

function stale(message: string): Unreliable {
  return { reason: "StaleMetrics", message };
}
