// The button by which people stop a shrink that runs: the policy goes, is suspended, or does not enforce shrinks any more.
import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import type { HoldReason } from "../../../../src/contracts/reasons.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { FilesystemFacts } from "../../../../src/policy-engine/facts/facts.ts";
import { type Ceilings, NO_CEILINGS, readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const shrinking = (policyShrink: FilesystemFacts["policyShrink"]) =>
  aVolume({ usedRatio: 0.1, filesystem: { operationInProgress: "Shrink", policyShrink } });
const NO_SHRINKS = readCeilings("guard", { modes: { shrink: "Recommend" } });

describe("a shrink that runs", () => {
  it.each<[string, CompiledPolicy | undefined, Ceilings, HoldReason]>([
    ["no policy selects the claim", undefined, NO_CEILINGS, "NoPolicy"],
    ["the policy is suspended", aPolicy({ suspend: true }), NO_CEILINGS, "PolicySuspended"],
    [
      "the mode is Recommend",
      aPolicy({ mode: { extend: "Enforce", shrink: "Recommend" } }),
      NO_CEILINGS,
      "RecommendOnly",
    ],
    ["a ceiling sets the mode to Recommend", aPolicy(), NO_SHRINKS, "RecommendOnly"],
  ])("is stopped once, where %s", (_why, policy, ceilings, reason) => {
    const message = expect.stringContaining("the shrink that runs ends after its step");
    expect(decide(shrinking("Running"), policy, ceilings)).toMatchObject({
      kind: "hold",
      reason,
      message,
      stopsShrink: true,
    });
    const again = decide(shrinking("Stopping"), policy, ceilings);
    expect(again).toMatchObject({ kind: "hold", reason, message });
    expect(again).not.toHaveProperty("stopsShrink");
  });

  it.each<[string, CompiledPolicy | undefined, Ceilings, HoldReason]>([
    ["no policy selects the claim", undefined, NO_CEILINGS, "NoPolicy"],
    ["the policy is suspended", aPolicy({ suspend: true }), NO_CEILINGS, "PolicySuspended"],
    ["a ceiling sets the mode to Recommend", aPolicy(), NO_SHRINKS, "RecommendOnly"],
  ])("and is not begun by its node yet is stopped, too, where %s", (_why, policy, ceilings, reason) => {
    const facts = aVolume({ usedRatio: 0.1, filesystem: { policyShrink: "Running" } });
    expect(decide(facts, policy, ceilings)).toMatchObject({
      ...{ kind: "hold", reason, stopsShrink: true },
      message: expect.stringContaining("the decided shrink does not begin"),
    });
  });

  it("and is not begun while the member that it needs first is taken in is called off in words of that", () => {
    const facts = aVolume({ usedRatio: 0.1, filesystem: { operationInProgress: "Extend", policyShrink: "Running" } });
    expect(decide(facts, undefined, NO_CEILINGS)).toMatchObject({
      ...{ kind: "hold", reason: "NoPolicy", stopsShrink: true },
      message: expect.stringContaining("the decided shrink does not begin"),
    });
  });

  it("and is not begun yet keeps no extend waiting, and no other decision of its policy", () => {
    const full = aVolume({ usedRatio: 0.95, filesystem: { policyShrink: "Running" } });
    expect(decide(full, aPolicy(), NO_SHRINKS)).toMatchObject({ kind: "extend" });
    const facts = aVolume({ usedRatio: 0.1, filesystem: { policyShrink: "Running" } });
    expect(decide(facts, aPolicy(), NO_CEILINGS)).toMatchObject({ kind: "shrink" });
  });

  it("and is not begun yet is called off, too, where an extend is wanted that waits", () => {
    const grows = {
      name: "grows",
      action: "Extend",
      when: "volume.secondsToFull < 86400.0",
      targetUsed: "60%",
    } as const;
    const policy = aPolicy({ mode: { extend: "Enforce", shrink: "Recommend" }, rules: [EXTEND_AT_80, grows] });
    const facts = aVolume({ usedRatio: 0.5, growth: (4.8 * GIB) / 36_000, filesystem: { policyShrink: "Running" } });
    expect(
      decide({ ...facts, filesystem: { ...facts.filesystem, policyShrink: undefined } }, policy, NO_CEILINGS),
    ).toMatchObject({
      reason: "RulePending",
    });
    expect(decide(facts, policy, NO_CEILINGS)).toMatchObject({ reason: "RecommendOnly", stopsShrink: true });
  });

  it("goes on while its policy enforces shrinks, whatever the rules say by now", () => {
    const plan = decide(shrinking("Running"), aPolicy({ rules: [] }), NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "hold", reason: "OperationInProgress" });
    expect(plan).not.toHaveProperty("stopsShrink");
  });

  it("goes on without a policy where none has asked for it: the operator takes a member back, or merges some for a pod", () => {
    const plan = decide(shrinking(undefined), undefined, NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "hold", reason: "OperationInProgress" });
    expect(plan).not.toHaveProperty("stopsShrink");
  });

  it("is stopped by an extend first, where a writer needs the room", () => {
    const facts = aVolume({
      usedRatio: 0.995,
      filesystem: { operationInProgress: "Shrink", policyShrink: "Running" },
    });
    const policy = aPolicy({ mode: { extend: "Enforce", shrink: "Recommend" } });
    expect(decide(facts, policy, NO_CEILINGS)).toMatchObject({ kind: "extend", fromBytes: 10 * GIB });
  });

  it("is stopped on a filesystem that takes no writes, too", () => {
    const facts = shrinking("Running");
    const readOnly = { ...facts, filesystem: { ...facts.filesystem, readOnly: "remount it" } };
    expect(decide(readOnly, undefined, NO_CEILINGS)).toMatchObject({ reason: "NoPolicy", stopsShrink: true });
    expect(decide(readOnly, aPolicy(), NO_CEILINGS)).toMatchObject({ kind: "hold", reason: "ReadOnly" });
  });

  it("does not end an extend", () => {
    const facts = aVolume({ filesystem: { operationInProgress: "Extend", policyShrink: undefined } });
    expect(decide(facts, undefined, NO_CEILINGS)).not.toHaveProperty("stopsShrink");
  });
});

describe("a shrink whose window closes", () => {
  const nightly = (cron: string) =>
    aPolicy({ behavior: { shrink: { cooldown: "1h", windows: [{ cron, duration: "3h", timeZone: "UTC" }] } } });
  // It is 12:00.
  const [OVER, OPEN] = [nightly("0 9 * * *"), nightly("0 10 * * *")];
  const NEXT_MS = Date.parse("2026-11-21T09:00:00Z");

  it("ends after its step, and the next window is when it goes on", () => {
    expect(decide(shrinking("Running"), OVER, NO_CEILINGS)).toMatchObject({
      ...{ kind: "hold", reason: "OutsideWindow", stopsShrink: true, nextEligibleMs: NEXT_MS },
      message:
        "the window of shrinks is over: the shrink that runs ends after its step, and the size stays as far as it has come",
    });
    expect(decide(shrinking("Stopping"), OVER, NO_CEILINGS)).not.toHaveProperty("stopsShrink");
  });

  it("goes on while a window is open, or where the policy has none", () => {
    for (const policy of [OPEN, aPolicy()])
      expect(decide(shrinking("Running"), policy, NO_CEILINGS)).toMatchObject({ reason: "OperationInProgress" });
  });

  it("is not begun either, where its node has not yet", () => {
    const facts = aVolume({ usedRatio: 0.1, filesystem: { policyShrink: "Running" } });
    expect(decide(facts, OVER, NO_CEILINGS)).toMatchObject({ reason: "OutsideWindow", stopsShrink: true });
  });

  it("says when the next one opens once it has ended, and not when its cooldown does, which is sooner", () => {
    const endedAtMs = NOW_MS - 60_000;
    const ended = { kind: "Shrink", outcome: "Cancelled", reason: "ShrinkCancelled" } as const;
    const stopped = { ...ended, endedAtMs, floorBytes: undefined };
    const facts = aVolume({ usedRatio: 0.1, filesystem: { lastOperation: stopped } });
    expect(decide(facts, OVER, NO_CEILINGS)).toMatchObject({ reason: "OutsideWindow", nextEligibleMs: NEXT_MS });
    const soon = nightly("30 12 * * *");
    expect(decide(facts, soon, NO_CEILINGS)).toMatchObject({ reason: "ShrinkCancelled" });
  });
});
