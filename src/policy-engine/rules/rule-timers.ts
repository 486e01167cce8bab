// How long each rule has held, for the rules' `for`. The process keeps one RuleTimers per volume and advances it after each decision;
// time in which the rules were not evaluated (unmounted, no data, engine down) pauses a timer and does not count.
import type { CompiledPolicy } from "../policies/compiled-policy.ts";

export interface RuleTimers {
  /** By CompiledRule.timerKey; absent: the rule did not hold when it was last evaluated. */
  readonly heldSinceMs: ReadonlyMap<string, number>;
  readonly evaluatedAtMs: number;
}

export const NO_RULE_TIMERS: RuleTimers = { heldSinceMs: new Map(), evaluatedAtMs: 0 };

/** A longer time without an evaluation is a pause: three of the slow path's intervals. */
export const PAUSE_AFTER_MS = 45_000;

/** How long a rule that holds at nowMs has held; 0 when it only begins to. */
export function heldForMs(timers: RuleTimers, timerKey: string, nowMs: number): number {
  const sinceMs = timers.heldSinceMs.get(timerKey);
  return sinceMs === undefined ? 0 : Math.max(0, nowMs - sinceMs - pausedMs(timers, nowMs));
}

/**
 * The timers after a decision. heldRules is Plan.heldRules: bit i says that policy.rules[i] holds; undefined when the decision ended
 * before any rule was evaluated, which leaves the timers as they are.
 */
export function advanceRuleTimers(
  timers: RuleTimers,
  policy: CompiledPolicy,
  heldRules: number | undefined,
  nowMs: number,
): RuleTimers {
  if (heldRules === undefined) return timers;
  if (heldRules === 0) return NO_RULE_TIMERS;
  const heldSinceMs = new Map<string, number>();
  policy.rules.forEach((rule, index) => {
    if ((heldRules & (1 << index)) !== 0)
      heldSinceMs.set(rule.timerKey, nowMs - heldForMs(timers, rule.timerKey, nowMs));
  });
  return { heldSinceMs, evaluatedAtMs: nowMs };
}

function pausedMs(timers: RuleTimers, nowMs: number): number {
  const silentMs = nowMs - timers.evaluatedAtMs;
  return silentMs > PAUSE_AFTER_MS ? silentMs : 0;
}
