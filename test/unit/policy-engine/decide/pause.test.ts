// A claim's owner has it left alone until some time, by an annotation; a full disk is averted all the same.
import { describe, expect, it } from "@jest/globals";
import { MESSAGE_CHARACTERS } from "../../../../src/contracts/printable.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { emergencyGrant } from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { advanceRuleTimers } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const HOUR_MS = 3_600_000;
const policy = aPolicy();
const inHours = (hours: number): string => new Date(NOW_MS + hours * HOUR_MS).toISOString();

function annotated(until: string, { claim, ...shape }: VolumeShape = {}) {
  return aVolume({ ...shape, claim: { ...claim, annotations: { "tidemark.dev/paused-until": until } } });
}
const planFor = (until: string, shape: VolumeShape) => decide(annotated(until, shape), policy, NO_CEILINGS);
const paused = (shape: VolumeShape) => planFor(inHours(2), shape);

describe("a paused claim", () => {
  it.each([
    ["an extend", 0.85, "extend-at-80"],
    ["a shrink", 0.1, "shrink-below-30"],
  ])("holds %s of its rules until then, and names what waits", (_what, usedRatio, rule) => {
    expect(paused({ usedRatio })).toMatchObject({
      ...{ kind: "hold", reason: "Paused", rule, nextEligibleMs: NOW_MS + 2 * HOUR_MS },
      message: expect.stringContaining(`${rule} holds and waits`),
    });
  });

  it("says that it is paused where no rule holds, too", () => {
    expect(paused({ usedRatio: 0.5 })).toMatchObject({ kind: "hold", reason: "Paused", rule: undefined });
  });

  it.each<[string, VolumeShape, string]>([
    ["minAvailable is crossed", { usedRatio: 0.99 }, "BelowMinAvailable"],
    ["its request is raised", { claim: { raisedRequestBytes: 20 * GIB } }, "RequestRaised"],
    ["it is under limits.min", { sizeBytes: GIB / 2 }, "BelowMinimum"],
    [
      "a shrink runs and its writer needs the room",
      { usedRatio: 0.995, filesystem: { operationInProgress: "Shrink", policyShrink: "Running" } },
      "BelowMinAvailable",
    ],
  ])("is extended all the same where %s", (_what, shape, reason) => {
    expect(paused(shape)).toMatchObject({ kind: "extend", reason });
  });

  it("extends for minAvailable alone, and not as far as a rule that waits asks for", () => {
    const far = aPolicy({ rules: [{ ...EXTEND_AT_80, targetUsed: "20%" }] });
    const facts = annotated(inHours(2), { usedRatio: 0.99 });
    const free = aVolume({ usedRatio: 0.99 });
    const [held, asked] = [facts, free].map((one) => decide(one, far, NO_CEILINGS));
    expect([held, asked]).toMatchObject([{ kind: "extend" }, { kind: "extend" }]);
    if (held?.kind === "extend" && asked?.kind === "extend") expect(held.sizeBytes).toBeLessThan(asked.sizeBytes);
  });

  it("keeps its emergency grant", () => {
    const free = emergencyGrant(aVolume(), policy, NO_CEILINGS);
    expect(free).toBeDefined();
    expect(emergencyGrant(annotated(inHours(2)), policy, NO_CEILINGS)).toEqual(free);
  });

  it("has a shrink that runs stopped once, and gets on when the pause is over", () => {
    const running: VolumeShape = {
      usedRatio: 0.1,
      filesystem: { operationInProgress: "Shrink", policyShrink: "Running" },
    };
    expect(paused(running)).toMatchObject({
      ...{ reason: "Paused", stopsShrink: true, nextEligibleMs: NOW_MS + 2 * HOUR_MS },
      message: expect.stringContaining("the shrink that runs ends after its step"),
    });
    expect(planFor(inHours(-1), running)).toMatchObject({ reason: "OperationInProgress" });
    expect(planFor(inHours(-1), { usedRatio: 0.1 })).toMatchObject({ kind: "shrink" });
  });

  it("goes on with how long its rules have held", () => {
    const lasting = aPolicy({ rules: [{ ...EXTEND_AT_80, for: "10m" }] });
    const first = annotated(inHours(2), { usedRatio: 0.85 });
    let timers = first.ruleTimers;
    for (let passedMs = 0; passedMs <= 600_000; passedMs += 15_000) {
      const facts = { ...first, nowMs: NOW_MS + passedMs, monotonicMs: NOW_MS + passedMs, ruleTimers: timers };
      const reading = first.filesystem.reading && { ...first.filesystem.reading, takenMs: facts.monotonicMs - 200 };
      const seen = { ...facts, filesystem: { ...first.filesystem, reading } };
      timers = advanceRuleTimers(timers, lasting, decide(seen, lasting, NO_CEILINGS).heldRules, seen);
    }
    const end = { monotonicMs: NOW_MS + 600_000, evaluationIntervalMs: 15_000 };
    expect(end.monotonicMs - (timers.heldSinceMs.get(lasting.rules[0]?.timerKey ?? "") ?? 0)).toBe(600_000);
  });
});

describe("an annotation that is not a time within 30 days", () => {
  const VALUES = [
    "tomorrow",
    "",
    "2026-12-01",
    "2026-12-01T00:00:00",
    "2026-11-31T00:00:00Z",
    "2026-12-01T25:00:00Z",
    inHours(30 * 24 + 1),
    "x".repeat(1000),
  ];
  it.each(VALUES)("(%s) says so, has nothing shrink, and pauses no extend", (value) => {
    for (const usedRatio of [0.1, 0.5]) {
      const plan = planFor(value, { usedRatio });
      expect(plan).toMatchObject({
        ...{ kind: "hold", reason: "PauseUnreadable" },
        message: expect.stringMatching(/^(write|lower) tidemark\.dev\/paused-until .*until then nothing shrinks: ?/),
      });
      expect(plan.message.length).toBeLessThanOrEqual(MESSAGE_CHARACTERS);
    }
    expect(planFor(value, { usedRatio: 0.85 })).toMatchObject({ kind: "extend", rule: "extend-at-80" });
  });

  it("stops a shrink that runs", () => {
    const filesystem = { operationInProgress: "Shrink", policyShrink: "Running" } as const;
    expect(planFor("tomorrow", { usedRatio: 0.1, filesystem })).toMatchObject({
      ...{ reason: "PauseUnreadable", stopsShrink: true },
    });
  });
});

it("a time is read in the zone that it names, up to 30 days ahead to the second", () => {
  expect(planFor("2026-11-20T14:00:00+01:00", { usedRatio: 0.85 })).toMatchObject({
    ...{ reason: "Paused", nextEligibleMs: NOW_MS + HOUR_MS },
  });
  expect(planFor(inHours(30 * 24), { usedRatio: 0.85 })).toMatchObject({ reason: "Paused" });
  expect(planFor(inHours(0), { usedRatio: 0.85 })).toMatchObject({ kind: "extend" });
});
