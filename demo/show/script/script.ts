// What happens in the demo, as a list of acts. Each is a phase of the workload or something that an operator's day brings; no act instructs
// Tidemark.
import { formatBytes, GIB, MIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { changesOf, usedBytes } from "../run/run-log.ts";
import { exclusiveOperation } from "../run/space.ts";
import { editPolicy } from "./policy-edit.ts";
import { type Stage, tell, until } from "./stage.ts";

export interface Act {
  readonly title: string;
  /** Two or three words for the picture. */
  readonly label: string;
  play(stage: Stage): Promise<void>;
}

/** About how long all of it takes: the width of the live chart. */
export const EXPECTED_DURATION_MS = 75_000;

const EXTENDS_WANTED = 3;
/** At least so large, and so full, that the newest files lie where a shrink must move them away. */
interface Flood {
  readonly capacityBytes: number;
  readonly usedRatio: number;
}
const FLOOD: Flood = { capacityBytes: 1.9 * GIB, usedRatio: 0.65 };
/** Before the burst, yet under the extend rule's 80%: that shrink must last until the burst reaches its reserve. */
const HIGH_FLOOD: Flood = { capacityBytes: 2.4 * GIB, usedRatio: 0.7 };
/** The share of the capacity that stays used when the oldest files were deleted: under the 30% of the shrink rule, each time. */
const FIRST_EBB_USED_RATIO = 0.265;
const EBB_USED_RATIO = 0.23;
/** What is there to be verified. */
const LAST_LIVE_BYTES = 300 * MIB;
const QUIET_BYTES_PER_SECOND = 4_000_000;
/** The agent's reserve follows the highest rate of the last minute: after a fast rise a burst reaches it soon. */
const LATER_RISE_FACTOR = 3;
const BURST_FACTOR = 10;
/** What a burst would leave available at the size that the shrink is to reach: under any reserve, and not nothing. */
const BURST_LEAVES_BYTES = 160 * MIB;
const SHRINK_COUNTS_FROM_RATIO = 0.25;
/** Another attempt takes some ten seconds; none is begun later than this. */
const BURST_LATEST_MS = 68_000;
/** The share of its maximum to which the host's use falls when all that was deleted has gone back. */
const HOST_RELEASED_RATIO = 0.5;

const RISE_LIMIT_MS = 180_000;
const SHRINK_START_LIMIT_MS = 30_000;
const SHRINK_END_LIMIT_MS = 45_000;
const HOST_RELEASE_LIMIT_MS = 15_000;

// The burst comes last: for a minute after it the agent keeps a reserve by the burst's rate, and shrinks would give less.
export const ACTS: readonly Act[] = [
  { title: "The tide rises: the same writer on both filesystems", label: "writers start", play: firstRise },
  { title: "The oldest files are deleted", label: "files deleted", play: ebbWithKilledAgent },
  { title: "More of the oldest files are deleted", label: "files deleted", play: ebb },
  { title: `The tide comes back, ${LATER_RISE_FACTOR} times as fast`, label: "writing again", play: rise },
  { title: "The oldest files are deleted, then comes a burst", label: "files deleted", play: ebbWithBurst },
  { title: "The burst's files are deleted", label: "files deleted", play: untilHostReleased },
];

async function firstRise(stage: Stage): Promise<void> {
  await until("the first extend", RISE_LIMIT_MS, stage.ending, () => extendsSoFar(stage) >= 1);
  await editPolicy(stage);
  await until(`${EXTENDS_WANTED} extends and a flood`, RISE_LIMIT_MS, stage.ending, () => {
    return extendsSoFar(stage) >= EXTENDS_WANTED && isFlood(stage, FLOOD);
  });
  await until("the unmanaged filesystem is full", RISE_LIMIT_MS, stage.ending, () => !stage.fixedWriter.running());
}

async function rise(stage: Stage): Promise<void> {
  stage.managedWriter.send({ rate: stage.bytesPerSecond * LATER_RISE_FACTOR });
  await until("the flood is back", RISE_LIMIT_MS, stage.ending, () => isFlood(stage, HIGH_FLOOD));
}

/** Where the first shrink went almost down to limits.min already, there is no other one to wait for. */
async function ebb(stage: Stage): Promise<void> {
  const before = stage.log.operations.length;
  const { capacityBytes = 0 } = stage.log.points.at(-1) ?? {};
  const minBytes = parseQuantity(stage.policy.spec.limits?.min ?? "0");
  if ((1 - SHRINK_COUNTS_FROM_RATIO) * capacityBytes < minBytes) {
    tell(stage, "note", `No other shrink begins: limits.min is ${formatBytes(minBytes)}`);
    return;
  }
  deleteDownTo(stage, EBB_USED_RATIO);
  await untilLargeShrink(stage, before);
}

async function ebbWithKilledAgent(stage: Stage): Promise<void> {
  const before = stage.log.operations.length;
  deleteDownTo(stage, FIRST_EBB_USED_RATIO);
  await untilMidShrink(stage);
  await stage.processes.killAgent();
  tell(stage, "fault", "The agent is killed with SIGKILL in mid-shrink", "kill -9 agent");
  stage.processes.startAgent();
  tell(stage, "note", "A new agent is started; it finds the shrink in its records");
  await untilLargeShrink(stage, before);
}

/**
 * A shrink that is finished before the burst reaches its reserve was just quicker: the tide then rises for another one. After a fast
 * burst there may be none: its rate counts for a minute.
 */
async function ebbWithBurst(stage: Stage): Promise<void> {
  let cancelled = false;
  for (let isFirst = true; isFirst || (!cancelled && stage.clock.nowMs() < BURST_LATEST_MS); isFirst = false) {
    if (!isFlood(stage, FLOOD)) await rise(stage);
    const before = stage.log.operations.length;
    const endedShrink = () => stage.log.operations.slice(before).find(({ kind }) => kind === "Shrink");
    deleteDownTo(stage, EBB_USED_RATIO);
    if (isFirst) await untilMidShrink(stage);
    else if (!(await shrinkBegins(stage))) {
      tell(stage, "note", "No other shrink begins: room is reserved for a writer as fast as that burst");
      return;
    }
    await burst(stage, () => endedShrink() !== undefined);
    cancelled = endedShrink()?.outcome === "Cancelled";
    if (!cancelled) tell(stage, "note", "That shrink ended before the burst came near its reserve");
  }
}

/**
 * As large as fits into the size that the shrink is to reach, whatever becomes of it: an application must not be hurt by it. Then the usual
 * rate: with no writer left, a shrink that meets its reserve ends at its floor, and not by a writer's cancellation.
 */
async function burst({ managedWriter, observer, log, clock, bytesPerSecond, ending }: Stage, ended: () => boolean) {
  const toBytes = parseQuantity(observer.runningOperation()?.to ?? "0");
  // Not what the filesystem shows as used: in mid-shrink that has the step in it.
  const roomBytes = Math.max(0, toBytes - managedWriter.totals().liveBytes - BURST_LEAVES_BYTES);
  const durationMs = (roomBytes / (bytesPerSecond * BURST_FACTOR)) * 1000;
  const endMs = clock.nowMs() + durationMs;
  tell({ log, clock }, "fault", `A burst of writes in mid-shrink: ${formatBytes(roomBytes)} at once`, "burst");
  managedWriter.send({ rate: bytesPerSecond * BURST_FACTOR });
  await until("the burst ends", SHRINK_END_LIMIT_MS, ending, () => ended() || clock.nowMs() >= endMs);
  managedWriter.send({ rate: bytesPerSecond });
  await until("the shrink under the burst ends", SHRINK_END_LIMIT_MS, ending, ended);
  managedWriter.send({ rate: QUIET_BYTES_PER_SECOND });
}

/** The room that deletions have left goes back to the host. */
async function untilHostReleased(stage: Stage): Promise<void> {
  const { managedWriter } = stage;
  managedWriter.send({ deleteOldest: Math.max(0, managedWriter.totals().liveBytes - LAST_LIVE_BYTES) });
  const { hostPoints } = stage.log;
  const mostBytes = hostPoints.reduce((most, { bytes }) => Math.max(most, bytes), 0);
  const deadlineMs = stage.clock.nowMs() + HOST_RELEASE_LIMIT_MS;
  await until("the host has got its blocks back", 2 * HOST_RELEASE_LIMIT_MS, stage.ending, () => {
    const released = (hostPoints.at(-1)?.bytes ?? 0) <= HOST_RELEASED_RATIO * mostBytes;
    return released || stage.clock.nowMs() > deadlineMs; // what has not gone by then, the summary shows
  });
}

function deleteDownTo({ managedWriter, log }: Stage, usedRatio: number): void {
  const last = log.points.at(-1);
  const bytes = last === undefined ? 0 : usedBytes(last) - usedRatio * last.capacityBytes;
  managedWriter.send({ rate: QUIET_BYTES_PER_SECOND });
  managedWriter.send({ deleteOldest: Math.max(0, Math.round(bytes)) });
}

function untilMidShrink(stage: Stage): Promise<void> {
  return until("a shrink runs", SHRINK_START_LIMIT_MS, stage.ending, () => isMidShrink(stage));
}

async function shrinkBegins(stage: Stage): Promise<boolean> {
  const deadlineMs = stage.clock.nowMs() + SHRINK_START_LIMIT_MS;
  let begun = false;
  await until("a shrink runs, or none will", 2 * SHRINK_START_LIMIT_MS, stage.ending, () => {
    begun = isMidShrink(stage);
    return begun || stage.clock.nowMs() > deadlineMs;
  });
  return begun;
}

/** The agent says so, and on a real filesystem the kernel does too. */
function isMidShrink({ observer, storage, volume }: Stage): boolean {
  if (observer.runningOperation()?.kind !== "Shrink") return false;
  return storage === "simulated" || exclusiveOperation(volume.fsid) === "resize";
}

function untilLargeShrink({ log, ending }: Stage, before: number): Promise<void> {
  return until("a shrink by a quarter or more is finished", SHRINK_END_LIMIT_MS, ending, () =>
    log.operations
      .slice(before)
      .filter(({ kind, outcome }) => kind === "Shrink" && (outcome === "Succeeded" || outcome === "FloorReached"))
      .some(({ fromBytes, reachedBytes }) => fromBytes - reachedBytes >= SHRINK_COUNTS_FROM_RATIO * fromBytes),
  );
}

function extendsSoFar({ log }: Stage): number {
  return changesOf(log.operations).filter(({ kind, outcome }) => kind === "Extend" && outcome === "Succeeded").length;
}

function isFlood({ log }: Stage, { capacityBytes, usedRatio }: Flood): boolean {
  const last = log.points.at(-1);
  if (last === undefined || last.capacityBytes < capacityBytes) return false;
  return usedBytes(last) >= usedRatio * last.capacityBytes;
}
