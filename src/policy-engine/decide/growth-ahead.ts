// Rules that hold for how fast a volume fills: they go before the rules on its level by ten minutes at most, and wait for half an hour after
// an extend, since a load may end before that. Pure.
import { growthWindowMs } from "../cel/growth-reads.ts";
import type { Facts, GrowthWindows } from "../facts/facts.ts";
import { predictUse } from "../facts/prediction.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import { scopeOf } from "./rule-round.ts";
import { stands } from "./vain-extends.ts";

/**
 * By as much a rule on growth may go before one on the level. A load that has once been made room for, and comes again in half an hour or
 * more, causes no second extend then: from the usual 60% to 80% is a third of what it writes.
 */
export const AHEAD_MS = 600_000;
/** After an extend the level speaks first. */
const FRESH_MS = 1_800_000;

interface Ahead {
  /** What is in use then, if it goes on so. */
  readonly usedBytes: number;
  /** There is a rule on the level, and it would not hold by then; or there was just an extend. */
  readonly isEarly: boolean;
}

const NO_GROWTH: GrowthWindows = { bytesPerSecond: () => 0 };

/** Of a rule that holds now. Undefined: it holds whether or not the volume grows. */
export function aheadOf(facts: Facts, policy: CompiledPolicy, rule: CompiledRule): Ahead | undefined {
  const { filesystem, changes, monotonicMs } = facts;
  const { reading } = filesystem;
  if (reading === undefined || rule.when.growth.length === 0) return undefined;
  const still = { ...facts, filesystem: { ...filesystem, growth: NO_GROWTH } };
  if (holds(still, rule)) return undefined;
  const usedBytes = reading.usedBytes + fastest(facts, rule) * (AHEAD_MS / 1000);
  // One that waits longer than that by its own `for`, or since larger did not help, will not speak first.
  const extending = policy.rules.filter(
    (one) => one.action === "Extend" && one.forMs < FRESH_MS && !stands(facts, policy, one),
  );
  const holdsWith = (used: number): boolean => {
    const predicted = predictUse(still, Math.min(Math.ceil(used), reading.capacityBytes));
    return extending.some((one) => holds(predicted, one));
  };
  const isFresh = monotonicMs - (changes.extendsAtMs.at(-1) ?? Number.NEGATIVE_INFINITY) < FRESH_MS;
  const hasLevel = holdsWith(reading.capacityBytes);
  return { usedBytes, isEarly: hasLevel && (isFresh || !holdsWith(usedBytes)) };
}

function holds(facts: Facts, { when }: CompiledRule): boolean {
  const result = when.evaluate(scopeOf(facts));
  return result.ok && result.value;
}

function fastest({ filesystem, monotonicMs }: Facts, { when }: CompiledRule): number {
  const rates = when.growth.map((read) => filesystem.growth?.bytesPerSecond(growthWindowMs(read), monotonicMs));
  return Math.max(0, ...rates.filter((rate) => typeof rate === "number"));
}
