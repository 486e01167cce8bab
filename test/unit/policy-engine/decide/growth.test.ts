// V5 of the look at a million decisions: a rule on secondsToFull followed each load of a few seconds, and had 144 extends where the level had 3.
import { describe, expect, it } from "@jest/globals";
import type { PolicyRule, VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { formatDuration } from "../../../../src/contracts/quantities/duration.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { nextExtendUsedBytes } from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { type MadeChange, playMonth, TRACES, type Trace } from "../../../builders/month.ts";
import { aPolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const GROWS = { name: "grows", action: "Extend", targetUsed: "60%" } as const;

describe("V5: growth is the trend of as long a time as the rule looks ahead", () => {
  it.each<[string, string, string[], Partial<VolumePolicySpec>]>([
    ["an hour for a rule that looks an hour ahead", "volume.secondsToFull < 3600.0", ["1h"], {}],
    ["the same the other way round", "7200.0 > volume.secondsToFull", ["2h"], {}],
    ["ten minutes at least", "volume.secondsToFull < 30.0", ["10m"], {}],
    ["six hours at most", "volume.secondsToFull < 1000000.0", ["6h"], {}],
    ["an hour where nothing says how far it looks", "volume.growthBytesPerSecond > 1000.0", ["1h"], {}],
    ["as much as it multiplies it by", "volume.availableBytes < volume.growthBytesPerSecond * 1800.0", ["30m"], {}],
    ["an hour for a margin", "volume.growthBytesPerSecond * 1.5 > 1000.0", ["1h"], {}],
    [
      "each its own for two that are compared",
      "volume.secondsToFull < 900.0 || volume.secondsToFull < 1800.0",
      ["15m", "30m"],
      {},
    ],
    [
      "the longest with which any rule compares a variable",
      "variables.left < 900.0 || variables.left < 1800.0",
      ["30m"],
      { variables: [{ name: "left", expression: "volume.secondsToFull" }] },
    ],
    ["none of a rule that does not read it", "volume.usedRatio >= 0.8", [], {}],
  ])("%s", (_what, when, windows, spec) => {
    const policy = aPolicy({ rules: [{ ...GROWS, when }], ...spec });
    expect(policy.problems).toEqual([]);
    expect(policy.growthWindowsMs.map(formatDuration)).toEqual(windows);
  });

  it("is asked for over that time, and not over the agent's seconds", () => {
    const asked: number[] = [];
    const growth = { bytesPerSecond: (windowMs: number) => (asked.push(windowMs), 0) };
    const facts = aVolume({ usedRatio: 0.7, reading: { growthBytesPerSecond: GIB / 1000 }, filesystem: { growth } });
    const policy = aPolicy({ rules: [{ ...GROWS, when: "volume.secondsToFull < 1200.0" }] });
    expect(decide(facts, policy, NO_CEILINGS)).toMatchObject({ reason: "WithinBounds" });
    expect(asked).toEqual([20 * MINUTE_MS]);
  });

  describe("goes before the level by ten minutes at most", () => {
    const grows = { ...GROWS, when: "volume.secondsToFull < 3600.0" };
    const growing = { usedRatio: 0.7, growth: (4.8 * GIB) / 3600 };
    it.each<[string, Parameters<typeof aVolume>[0], VolumePolicySpec["rules"], object]>([
      ["and waits until then", growing, [EXTEND_AT_80, grows], { kind: "hold", reason: "RulePending", rule: "grows" }],
      [
        "and is followed then, to what is needed of a volume that goes on so",
        { ...growing, usedRatio: 0.75 },
        [EXTEND_AT_80, grows],
        { kind: "extend", rule: "grows", sizeBytes: Math.ceil(((7.5 + 0.8) / 0.6) * 1024) * 1024 * 1024 },
      ],
      [
        "and waits for half an hour after an extend",
        {
          ...growing,
          usedRatio: 0.75,
          facts: { changes: { extendsAtMs: [NOW_MS - 29 * MINUTE_MS], shrinksAtMs: [] } },
        },
        [EXTEND_AT_80, grows],
        { kind: "hold", reason: "RulePending" },
      ],
      [
        "and not for longer",
        {
          ...growing,
          usedRatio: 0.75,
          facts: { changes: { extendsAtMs: [NOW_MS - 30 * MINUTE_MS], shrinksAtMs: [] } },
        },
        [EXTEND_AT_80, grows],
        { kind: "extend", rule: "grows" },
      ],
      [
        "in one rule with it, too",
        growing,
        [{ ...grows, when: "volume.usedRatio >= 0.8 || volume.secondsToFull < 3600.0" }],
        { kind: "hold", reason: "RulePending" },
      ],
      [
        "where no rule asks for the level, it is followed as written",
        growing,
        [grows],
        { kind: "extend", rule: "grows" },
      ],
    ])("%s", (_what, shape, rules, plan) => {
      expect(decide(aVolume(shape), aPolicy({ rules }), NO_CEILINGS)).toMatchObject(plan);
    });

    it("and its agent is not asked to look out for it before", () => {
      const policy = aPolicy({ rules: [EXTEND_AT_80, grows] });
      const atBytes = nextExtendUsedBytes(aVolume({ ...growing, usedRatio: 0.65 }), policy, NO_CEILINGS);
      expect((atBytes ?? 0) / GIB).toBeCloseTo(7.2, 1);
    });
  });

  it("is known to has() when what it guards is", () => {
    const when = "has(volume.secondsToFull) && volume.secondsToFull < 600.0 || volume.usedRatio >= 0.9";
    const growth = { bytesPerSecond: (windowMs: number) => (windowMs === 10 * MINUTE_MS ? GIB : { missing: "of it" }) };
    const facts = aVolume({ usedRatio: 0.5, filesystem: { growth } });
    expect(decide(facts, aPolicy({ rules: [{ ...GROWS, when }] }), NO_CEILINGS)).toMatchObject({ kind: "extend" });
  });

  it("holds as long as it is not known, and what is compared with the level extends all the same", () => {
    const policy = aPolicy({ rules: [{ ...GROWS, when: "volume.usedRatio >= 0.8 || volume.secondsToFull < 3600.0" }] });
    const filesystem = { growth: { bytesPerSecond: () => ({ missing: "40% of it" }) } };
    const plan = decide(aVolume({ usedRatio: 0.1, filesystem }), policy, NO_CEILINGS);
    expect(plan).toMatchObject({
      kind: "hold",
      reason: "NotEnoughHistory",
      message: expect.stringContaining("40% of it"),
    });
    expect(decide(aVolume({ usedRatio: 0.8, filesystem }), policy, NO_CEILINGS)).toMatchObject({ kind: "extend" });
    expect(decide(aVolume({ usedRatio: 0.1, filesystem: { growth: undefined } }), policy, NO_CEILINGS)).toMatchObject({
      reason: "NotEnoughHistory",
    });
  });
});

describe("a Shrink rule that reads growth is refused", () => {
  const refusalOf = (rule: Partial<PolicyRule>, spec: Partial<VolumePolicySpec> = {}) =>
    aPolicy({ ...spec, rules: [EXTEND_AT_80, { ...SHRINK_BELOW_30, ...rule }] }).problems;

  it.each<[string, Partial<PolicyRule>, object, Partial<VolumePolicySpec>]>([
    [
      "in its condition, with its place",
      { when: "volume.usedRatio < 0.3 && volume.growthBytesPerSecond <= 0.0" },
      { field: "spec.rules[1].when", line: 1, column: 27 },
      {},
    ],
    [
      "in its size",
      { targetUsed: undefined, toExpression: "volume.usedBytes + volume.growthBytesPerSecond * 3600.0" },
      { field: "spec.rules[1].toExpression" },
      {},
    ],
    [
      "in a variable",
      { when: "volume.usedRatio < 0.3 && variables.calm" },
      { field: "spec.rules[1].when", column: 27 },
      { variables: [{ name: "calm", expression: "volume.secondsToFull > 86400.0" }] },
    ],
  ])("%s", (_where, rule, problem, spec) => {
    const problems = refusalOf(rule, spec);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({
      ...problem,
      message: expect.stringMatching(/^a Shrink rule cannot read volume\.(growthBytesPerSecond|secondsToFull)/),
      hint: expect.stringContaining("usedRatioMax"),
    });
  });

  it("but not in its message, which decides nothing", () => {
    expect(refusalOf({ messageExpression: "bytes(volume.growthBytesPerSecond)" })).toEqual([]);
  });
});

/** GiB in use of a load from here to there, the rest of a day of 24 h at the first. */
const load =
  (fromGib: number, toGib: number, lastsMs: number): Trace =>
  (ms) => {
    const sinceMs = ((ms % (24 * HOUR_MS)) + 24 * HOUR_MS) % (24 * HOUR_MS);
    return (sinceMs >= 4 * HOUR_MS ? fromGib : fromGib + (toGib - fromGib) * Math.min(1, sinceMs / lastsMs)) * GIB;
  };

const LOADS: Readonly<Record<string, Trace>> = {
  ...TRACES,
  "a load of five minutes that ends under the level": load(10, 70, 5 * MINUTE_MS),
  "a load of a quarter of an hour that ends under the level": load(30, 75, 15 * MINUTE_MS),
  "a load of half an hour that ends over the level": load(20, 120, 30 * MINUTE_MS),
  "a load of an hour that ends over the level": load(20, 120, HOUR_MS),
  "a load of three hours that ends over the level": load(20, 120, 3 * HOUR_MS),
  "a compaction of ten minutes, up and down": (ms) =>
    (20 + 50 * Math.max(0, Math.sin((2 * Math.PI * ms) / (20 * MINUTE_MS)))) * GIB,
};

describe("on loads, sawtooths and compactions a rule on growth extends no more than half an hour before the level would", () => {
  const policy = aPolicy({
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "500Gi" },
    rules: [EXTEND_AT_80, { ...GROWS, when: "volume.secondsToFull < 3600.0" }, SHRINK_BELOW_30],
  });

  it.each(Object.entries(LOADS))("%s", (_name, trace) => {
    const untimely: string[] = [];
    const onChange = ({ plan, atMs }: MadeChange): void => {
      if (plan.kind !== "extend" || plan.rule !== GROWS.name || reachesLevel(trace, atMs, plan.fromBytes)) return;
      untimely.push(`${plan.fromBytes / GIB} GiB at ${atMs / MINUTE_MS} min: ${plan.message}`);
    };
    const { extends: made } = playMonth(policy, trace, { stepMs: MINUTE_MS, days: 2, onChange });
    expect(untimely).toEqual([]);
    expect(made).toBeLessThanOrEqual(playMonth(levelOnly, trace, { stepMs: MINUTE_MS, days: 2 }).extends);
  });

  it("and it extends before the level does where a volume fills for hours, which shows that it is read", () => {
    let first: MadeChange | undefined;
    playMonth(policy, load(20, 95, 2 * HOUR_MS), {
      stepMs: MINUTE_MS,
      days: 1,
      onChange: (made) => void (first ??= made),
    });
    expect(first?.plan).toMatchObject({ kind: "extend", rule: GROWS.name });
    expect((first?.usedBytes ?? 0) / (first?.plan.fromBytes ?? 1)).toBeLessThan(0.8);
  });
});

const levelOnly = aPolicy({
  mode: { extend: "Enforce", shrink: "Enforce" },
  limits: { min: "1Gi", max: "500Gi" },
  rules: [EXTEND_AT_80, SHRINK_BELOW_30],
});

/** Whether the level's rule would extend a volume of this size within half an hour. */
function reachesLevel(trace: Trace, atMs: number, sizeBytes: number): boolean {
  for (let ms = atMs; ms <= atMs + 30 * MINUTE_MS; ms += MINUTE_MS) if (trace(ms) >= 0.8 * sizeBytes) return true;
  return false;
}
