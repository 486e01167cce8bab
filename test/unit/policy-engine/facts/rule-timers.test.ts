import { describe, expect, it } from "@jest/globals";
import {
  advanceRuleTimers,
  heldForMs,
  NO_RULE_TIMERS,
  type RuleTimers,
} from "../../../../src/policy-engine/facts/facts.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aPolicy, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

const policy = aPolicy();
const [EXTEND_HOLDS, SHRINK_HOLDS] = [0b01, 0b10];
const shrinkKey = policy.rules[1]?.timerKey ?? "";
const at = (seconds: number, evaluationIntervalMs = 15_000) => ({
  monotonicMs: NOW_MS + seconds * 1000,
  evaluationIntervalMs,
});
const afterSeconds = (timers: RuleTimers, seconds: number): number => heldForMs(timers, shrinkKey, at(seconds)) / 1000;
const advance = (timers: RuleTimers, seconds: number, held: number | undefined): RuleTimers =>
  advanceRuleTimers(timers, policy, held, at(seconds));

describe("rule timers", () => {
  it("count from the first decision in which the rule held", () => {
    const timers = advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, SHRINK_HOLDS);
    expect(afterSeconds(timers, 30)).toBe(30);
  });

  it("start anew when the rule has not held in between", () => {
    const timers = advance(advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, 0), 30, SHRINK_HOLDS);
    expect(afterSeconds(timers, 40)).toBe(10);
  });

  it("start anew when only another rule has held in between", () => {
    const timers = advance(advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, EXTEND_HOLDS), 30, SHRINK_HOLDS);
    expect(afterSeconds(timers, 40)).toBe(10);
  });

  it("go on while decisions end before any rule is asked, as during an operation", () => {
    const timers = advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, undefined);
    expect(afterSeconds(timers, 30)).toBe(30);
  });

  it.each([
    [45, 60],
    [46, 15],
    [3600, 15],
  ])("that held for 15 s, %i s after the last decision, have held for %i s", (silentSeconds, held) => {
    const timers = advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, SHRINK_HOLDS);
    expect(afterSeconds(timers, 15 + silentSeconds)).toBe(held);
  });

  it("do not count a long time without a decision, such as unmounted days", () => {
    const before = advance(advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS), 15, SHRINK_HOLDS);
    expect(afterSeconds(before, 86_415)).toBe(15);
    const after = advance(before, 86_415, SHRINK_HOLDS);
    expect(afterSeconds(after, 86_425)).toBe(25);
  });

  it("start anew when the rule's condition was edited", () => {
    const timers = advance(NO_RULE_TIMERS, 0, SHRINK_HOLDS);
    const edited = aPolicy({ rules: [{ ...SHRINK_BELOW_30, when: "volume.usedRatioMax('24h') < 0.2" }] }).rules[0];
    expect(heldForMs(timers, edited?.timerKey ?? "", at(60))).toBe(0);
  });

  it("cost nothing for a volume on which no rule holds", () => {
    expect(advance(NO_RULE_TIMERS, 0, 0)).toBe(NO_RULE_TIMERS);
  });

  it("V3: elapse where rules are asked once a minute, as --evaluation-interval says", () => {
    let timers = NO_RULE_TIMERS;
    for (let second = 0; second <= 3600; second += 60)
      timers = advanceRuleTimers(timers, policy, SHRINK_HOLDS, at(second, 60_000));
    expect(heldForMs(timers, shrinkKey, at(3660, 60_000))).toBe(3_660_000);
    expect(heldForMs(timers, shrinkKey, at(3600 + 181, 60_000))).toBe(3_600_000);
  });

  it("B8: start anew when a variable is edited that the rule reads, directly or by another one, and not for others", () => {
    const keyOf = (...expressions: readonly [peak: string, low: string, other: string]) => {
      const variables = ["peak", "low", "other"].map((name, index) => ({ name, expression: expressions[index] ?? "" }));
      return aPolicy({ variables, rules: [{ ...SHRINK_BELOW_30, when: "variables.low" }] }).rules[0]?.timerKey;
    };
    const [peak, low] = ["volume.usedRatioMax('24h')", "variables.peak < 0.3"];
    const key = keyOf(peak, low, "1");
    expect(key).toBeDefined();
    expect(keyOf(peak, low, "2")).toBe(key);
    expect(keyOf(peak, "variables.peak < 0.2", "1")).not.toBe(key);
    expect(keyOf("volume.usedRatioMax('12h')", low, "1")).not.toBe(key);
  });
});
