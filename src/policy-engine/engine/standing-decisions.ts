// Decisions that stand. Most volumes of a fleet are at rest: a round would say of them what the one before it has said. A decision that
// holds still and waits for no time stands until something that it rests on has changed. Where that is in question, the volume is decided.
// Pure but for what the caches show.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { OwnWrites } from "../../platform/kube/client/writes.ts";
import type { Instant } from "../../platform/process/clock.ts";
import { grantServesUntilMs } from "../apply/precautions.ts";
import type { Expression } from "../cel/expression.ts";
import type { Plan } from "../decide/plan.ts";
import type { ClaimFacts, NodeFacts, ReceivedReading } from "../facts/facts.ts";
import { differenceOfClocks, isFresh } from "../facts/measurements.ts";
import type { CacheReads } from "../gather/cache-reads.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import type { PromisesLedger } from "../gather/promises-draft.ts";
import type { Standing, VolumeState } from "../gather/volume-registry.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { Selected } from "../policies/select-policy.ts";
import type { Decided, DecidingWorld } from "./decide-batch.ts";
import {
  changesOf,
  goesByClock,
  isAsRemembered,
  isAtRest,
  isSameFigures,
  isSameNode,
  rememberedOf,
  TIMELESS_FACTS,
} from "./decision-ground.ts";

/** What a decision rests on besides objects and readings. */
export interface StandingGround {
  readonly world: Pick<DecidingWorld, "metricsStale" | "promises">;
  readonly policies: Pick<PolicyBook, "forClaim">;
  readonly ownGrants: Pick<OwnWrites<FilesystemLayout>, "latest">;
  readonly epoch: () => number | undefined;
}

/** Holds that say nothing of time. Every other one is decided with each round. */
const STILL_REASONS: ReadonlySet<Plan["reason"]> = new Set<HoldReason>([
  "WithinBounds",
  "NotEnoughHistory",
  "NoPolicy",
  "NotMounted",
  "PolicySuspended",
  "ClaimBackendDisabled",
  "OtherAutoscaler",
  "RawBlockVolume",
]);

/** None stands for longer, whatever it rests on; some for half as long, so that a fleet is not decided all at once. */
const LIFE_MS = 600_000;
/** From one to the next, of a whole: they spread evenly, however many there are. */
const SPREAD = 0.618_034;
/** The wall clock has been set where it moved by more than this against the monotonic one. */
const CLOCK_SET_MS = 1000;

export interface StandingDecisions {
  /** Whether the volume's last decision stands, so that deciding again would bring nothing. `promises`: with what was decided just before. */
  stands(state: VolumeState, at: Instant, promises: Sums): boolean;
  /** Of a decision that has begun no write: from now on it stands; undefined: it does not. */
  after(decided: Decided): Standing | undefined;
}

type Sums = Pick<PromisesLedger, "othersBytes" | "othersOver">;

/** What a policy asks of the facts. */
interface Reads {
  readonly isTimeless: boolean;
  readonly windowsMs: readonly number[];
}

const NO_READS: Reads = { isTimeless: true, windowsMs: [] };

export function createStandingDecisions(ground: StandingGround): StandingDecisions {
  const readsByPolicy = new WeakMap<CompiledPolicy, Reads>();
  const readsOf = (policy: CompiledPolicy | undefined): Reads => {
    if (policy === undefined) return NO_READS;
    const reads = readsByPolicy.get(policy) ?? readsOfRules(policy);
    readsByPolicy.set(policy, reads);
    return reads;
  };
  let spread = 0;
  return {
    stands: (state, at, promises) => state.standing?.holds(state, at, promises) === true,
    after: (decided) => {
      const reads = readsOf(decided.policy);
      if (decided.reads === undefined || !isStill(decided, reads) || !isShown(ground, decided)) return undefined;
      spread = (spread + SPREAD) % 1;
      return new StandingDecision(ground, decided, decided.reads, reads.windowsMs, LIFE_MS * (1 - spread / 2));
    },
  };
}

function readsOfRules({ rules }: CompiledPolicy): Reads {
  const expressions: Expression<unknown>[] = rules.flatMap(({ when, size }) =>
    size.kind === "toExpression" ? [when, size.expression] : [when],
  );
  const isTimeless = expressions.every(
    ({ reads, growth }) => growth.length === 0 && reads.every((fact) => TIMELESS_FACTS.has(fact)),
  );
  const windowsMs = new Set(expressions.flatMap(({ windows }) => windows.map(({ windowMs }) => windowMs)));
  return { isTimeless, windowsMs: [...windowsMs] };
}

function isStill({ state, plan, gathered: { facts } }: Decided, { isTimeless }: Reads): boolean {
  const { filesystem } = facts;
  const isHeld = plan.heldRules !== undefined && plan.heldRules !== 0;
  if (plan.kind !== "hold" || isHeld || plan.stopsShrink === true || !STILL_REASONS.has(plan.reason)) return false;
  if (!isTimeless || !isAtRest(state) || goesByClock(facts)) return false;
  return filesystem.reading === undefined || differenceOfClocks(filesystem.reading) === undefined;
}

/** What was written last is in the cache, and no budget is so short that others have a word on its grant. */
function isShown({ ownGrants, world }: StandingGround, { state, gathered: { layout }, ceilings }: Decided): boolean {
  if (ownGrants.latest(layout) !== layout) return false;
  return shareOf(world, state.handle, ceilings.namespaceBytes?.value) === Number.POSITIVE_INFINITY;
}

function shareOf({ promises }: StandingGround["world"], handle: string, budgetBytes: number | undefined): number {
  return budgetBytes === undefined ? Number.POSITIVE_INFINITY : promises.grantShare(handle, budgetBytes);
}

class StandingDecision implements Standing {
  readonly #ground: StandingGround;
  readonly #reads: CacheReads;
  readonly #claim: ClaimFacts;
  readonly #selected: Selected;
  readonly #same: readonly unknown[];
  #reading: ReceivedReading | undefined;
  readonly #isFresh: boolean;
  readonly #node: NodeFacts | undefined;
  readonly #windowsMs: readonly number[];
  readonly #peaks: readonly number[];
  readonly #changes: number;
  readonly #epoch: number | undefined;
  readonly #metricsStale: boolean;
  readonly #sums: Decided["sums"];
  readonly #wallAheadMs: number;
  /** On the monotonic clock, and on the wall clock. */
  readonly #untilMs: number;
  readonly #untilWallMs: number;

  constructor(
    ground: StandingGround,
    decided: Decided,
    reads: CacheReads,
    windowsMs: readonly number[],
    lifeMs: number,
  ) {
    const { state, gathered, selected, sums } = decided;
    const { facts, layout } = gathered;
    this.#ground = ground;
    this.#reads = reads;
    this.#claim = facts.claim;
    this.#selected = selected;
    this.#same = rememberedOf(state);
    this.#reading = facts.filesystem.reading;
    this.#isFresh = isFreshAt(facts.filesystem.reading, facts.monotonicMs);
    this.#node = facts.node;
    this.#windowsMs = windowsMs;
    this.#peaks = windowsMs.length === 0 ? NO_PEAKS : peaksOf(state, windowsMs, facts.monotonicMs);
    this.#changes = changesOf(state);
    this.#epoch = ground.epoch();
    this.#metricsStale = facts.metricsStale;
    this.#sums = sums;
    this.#wallAheadMs = facts.nowMs - facts.monotonicMs;
    this.#untilMs = facts.monotonicMs + lifeMs;
    this.#untilWallMs = grantServesUntilMs(layout);
  }

  holds(state: VolumeState, at: Instant, promises: Sums): boolean {
    return (
      this.#isInTime(at) &&
      this.#isOfSameRemembered(state) &&
      this.#isOfSameReading(state.reading, at.monotonicMs) &&
      isSameNode(this.#node, state.node) &&
      this.#isOfSameProcess(at.monotonicMs) &&
      this.#isOfSameSums(state.handle, promises) &&
      this.#reads.areCurrent() &&
      this.#ground.policies.forClaim(this.#claim, this.#selected) === this.#selected &&
      this.#isOfSamePeaks(state, at.monotonicMs)
    );
  }

  #isInTime({ nowMs, monotonicMs }: Instant): boolean {
    const setMs = Math.abs(nowMs - monotonicMs - this.#wallAheadMs);
    return monotonicMs < this.#untilMs && nowMs < this.#untilWallMs && setMs <= CLOCK_SET_MS;
  }

  #isOfSameRemembered(state: VolumeState): boolean {
    return isAtRest(state) && changesOf(state) === this.#changes && isAsRemembered(state, this.#same);
  }

  // A later reading of the same figures says the same. Were it of an earlier time, what it comes after would be in question.
  #isOfSameReading(reading: ReceivedReading | undefined, monotonicMs: number): boolean {
    if (isFreshAt(reading, monotonicMs) !== this.#isFresh) return false;
    const before = this.#reading;
    if (reading === before) return true;
    if (reading === undefined || before === undefined || !isSameFigures(before, reading)) return false;
    if (reading.takenMs < before.takenMs || reading.sampledAtMs < before.sampledAtMs) return false;
    if (differenceOfClocks(reading) !== undefined) return false;
    this.#reading = reading;
    return true;
  }

  #isOfSameProcess(monotonicMs: number): boolean {
    const { world, epoch } = this.#ground;
    return epoch() === this.#epoch && world.metricsStale(monotonicMs) === this.#metricsStale;
  }

  #isOfSameSums(handle: string, promises: Sums): boolean {
    const budget = this.#selected.ceilings.namespaceBytes;
    if (budget !== undefined && shareOf(this.#ground.world, handle, budget.value) !== Number.POSITIVE_INFINITY)
      return false;
    const { allBytes, classBytes } = promises.othersOver(handle);
    const before = this.#sums;
    return (
      Object.is(before.othersBytes, promises.othersBytes(handle)) &&
      Object.is(before.allBytes, allBytes) &&
      Object.is(before.classBytes, classBytes)
    );
  }

  // A peak leaves a window as time passes, and so does a time in which nothing was measured.
  #isOfSamePeaks({ history }: VolumeState, monotonicMs: number): boolean {
    return this.#windowsMs.every((windowMs, index) =>
      Object.is(peakOf(history, windowMs, monotonicMs), this.#peaks[index]),
    );
  }
}

const NO_PEAKS: readonly number[] = [];

function peaksOf({ history }: VolumeState, windowsMs: readonly number[], monotonicMs: number): number[] {
  return windowsMs.map((windowMs) => peakOf(history, windowMs, monotonicMs));
}

/** NaN: too much of the window is missing. */
function peakOf(history: VolumeState["history"], windowMs: number, monotonicMs: number): number {
  const peak = history.maxUsedBytes(windowMs, monotonicMs);
  return typeof peak === "number" ? peak : Number.NaN;
}

function isFreshAt(reading: ReceivedReading | undefined, monotonicMs: number): boolean {
  return reading !== undefined && isFresh(reading, monotonicMs);
}
