import { describe, expect, it } from "@jest/globals";
import {
  decideOperation,
  decideUnmountedShrink,
  type IdleReason,
  type OperationFacts,
} from "../../../../src/agent/decide/decide-operation.ts";
import type { Operation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import type { Target } from "../../../../src/contracts/kinds/target.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";

const target = (change: Partial<Target> = {}): Target => ({
  sizeBytes: 4 * GIB,
  fromBytes: 2 * GIB,
  epoch: 3,
  decidedAt: "2026-01-01T00:00:10Z",
  notAfterMs: undefined,
  ...change,
});
const facts = (change: Partial<OperationFacts> = {}): OperationFacts => ({
  mounted: true,
  readOnly: false,
  sizeBytes: 2 * GIB,
  layoutKnown: true,
  removalWanted: false,
  removed: false,
  shrinksOnlyUnmounted: false,
  members: undefined,
  target: undefined,
  highestEpoch: 3,
  endedDecidedAt: undefined,
  running: undefined,
  interrupted: undefined,
  ...change,
});
const unmountedShrink: Partial<OperationFacts> = {
  shrinksOnlyUnmounted: true,
  sizeBytes: 4 * GIB,
  target: target({ sizeBytes: 1 * GIB, fromBytes: 4 * GIB, notAfterMs: Date.parse("2026-01-01T00:05:10Z") }),
};
const shrinking = { kind: "Shrink", decidedAt: "2026-01-01T00:00:00Z", cancelling: false } as const;
const shrinkOperation: Operation = {
  kind: "Shrink",
  from: "4Gi",
  to: "1Gi",
  epoch: 3,
  decidedAt: shrinking.decidedAt,
  startedAt: "2026-01-01T00:00:01Z",
  step: "shrinking",
};

describe("deciding what to do about a volume's size", () => {
  it.each<[string, Partial<OperationFacts>, IdleReason]>([
    ["no target has been decided", {}, "NoTarget"],
    ["the size is the target's", { target: target({ sizeBytes: 2 * GIB }) }, "AtTarget"],
    ["the filesystem is read-only", { readOnly: true, target: target() }, "ReadOnly"],
    [
      "an interrupted extend finds the filesystem read-only",
      { readOnly: true, interrupted: { ...shrinkOperation, kind: "Extend", to: "4Gi" } },
      "ReadOnly",
    ],
    ["the filesystem is not mounted", { mounted: false, target: target() }, "NotMounted"],
    ["the member was not found", { sizeBytes: undefined, target: target() }, "MemberMissing"],
    ["the target has ended before", { target: target(), endedDecidedAt: target().decidedAt }, "TargetEnded"],
    [
      "the target is older than the one that ended last, as after a restore from a backup, though the size is its from again",
      { target: target({ sizeBytes: GIB, decidedAt: "2026-01-01T00:00:05Z" }), endedDecidedAt: "2026-01-01T00:00:10Z" },
      "TargetEnded",
    ],
    [
      "a shrink was decided on another size",
      { target: target({ sizeBytes: GIB, fromBytes: 4 * GIB }) },
      "DecidedOnAnotherSize",
    ],
    [
      "an extend is running, whatever is wanted next",
      { running: { ...shrinking, kind: "Extend" }, target: target() },
      "OperationInProgress",
    ],
    [
      "a shrink is being cancelled already",
      { running: { ...shrinking, cancelling: true }, target: target() },
      "OperationInProgress",
    ],
    [
      "the running shrink is the target",
      { running: shrinking, target: target({ sizeBytes: GIB, fromBytes: 4 * GIB, decidedAt: shrinking.decidedAt }) },
      "OperationInProgress",
    ],
    [
      "a shrink runs and the extend comes from a deposed leader",
      { running: shrinking, target: target({ epoch: 2 }) },
      "OperationInProgress",
    ],
    [
      "a shrink runs and another shrink is decided",
      { running: shrinking, target: target({ sizeBytes: GIB, fromBytes: 2 * GIB }) },
      "OperationInProgress",
    ],
    [
      "an interrupted shrink, and the API server has not been heard",
      { interrupted: shrinkOperation, layoutKnown: false },
      "WaitingForLayout",
    ],
    ["the member is to be removed and still mounted", { removalWanted: true }, "StillMounted"],
    ["the member has been removed", { removalWanted: true, removed: true, mounted: false }, "MemberRemoved"],
  ])("does nothing when %s", (_when, change, reason) => {
    expect(decideOperation(facts(change))).toMatchObject({ act: "Nothing", reason });
  });

  it("extends to a larger target, whatever size it was decided on", () => {
    const wanted = target({ fromBytes: GIB });
    expect(decideOperation(facts({ target: wanted }))).toEqual({
      act: "Start",
      kind: "Extend",
      toBytes: wanted.sizeBytes,
      target: wanted,
      fromBytes: 2 * GIB,
    });
  });

  it("shrinks to a smaller target while the size is the one it was decided on", () => {
    const wanted = target({ sizeBytes: GIB, fromBytes: 2 * GIB });
    expect(decideOperation(facts({ target: wanted }))).toMatchObject({
      act: "Start",
      kind: "Shrink",
      fromBytes: 2 * GIB,
    });
  });

  it("refuses a deposed leader's target and names both epochs", () => {
    const decision = decideOperation(facts({ target: target({ epoch: 2 }) }));
    expect(decision).toMatchObject({ act: "Refuse", message: expect.stringMatching(/epoch 2 .* epoch 3/) });
  });

  it.each<[string, Partial<Target>, IdleReason]>([
    ["the size is there already", { sizeBytes: 2 * GIB, fromBytes: GIB }, "AtTarget"],
    ["the filesystem has outgrown it", { sizeBytes: 1.5 * GIB, fromBytes: GIB }, "DecidedOnAnotherSize"],
  ])("lets a deposed leader's target lie where %s: it stalls nothing", (_where, change, reason) => {
    const decision = decideOperation(facts({ target: target({ epoch: 2, ...change }) }));
    expect(decision).toMatchObject({ act: "Nothing", reason });
  });

  it("leaves a target of a lower epoch that has been carried out in the past, as a backup puts it back", () => {
    const wanted = target({ epoch: 2, decidedAt: "2026-01-01T00:00:00Z" });
    const decision = decideOperation(facts({ target: wanted, endedDecidedAt: "2026-01-02T00:00:00Z" }));
    expect(decision).toMatchObject({ act: "Nothing", reason: "TargetEnded" });
  });

  it("cancels a running shrink for an extend", () => {
    expect(decideOperation(facts({ running: shrinking, target: target() }))).toMatchObject({ act: "CancelShrink" });
  });

  it.each([4 * GIB, 3 * GIB])(
    "cancels a running shrink where the size shall stay, and what was reached stays then: decided at %d bytes",
    (decidedAtBytes) => {
      const stays = target({ sizeBytes: decidedAtBytes, fromBytes: decidedAtBytes });
      const running = facts({ sizeBytes: 3 * GIB, running: shrinking, target: stays });
      expect(decideOperation(running)).toMatchObject({
        act: "CancelShrink",
        message: expect.stringMatching(/no longer wanted/),
      });
      const after = facts({ sizeBytes: 3 * GIB, endedDecidedAt: shrinking.decidedAt, target: stays });
      expect(decideOperation(after)).toMatchObject({ act: "Nothing", reason: "AtTarget" });
    },
  );

  it("goes on with a running shrink that a deposed leader wants to stop", () => {
    const stays = target({ sizeBytes: 4 * GIB, fromBytes: 4 * GIB, epoch: 2 });
    expect(decideOperation(facts({ running: shrinking, target: stays }))).toMatchObject({
      act: "Nothing",
      reason: "OperationInProgress",
    });
  });

  it("resumes an interrupted extend without asking anybody", () => {
    const interrupted: Operation = { ...shrinkOperation, kind: "Extend", to: "8Gi" };
    expect(decideOperation(facts({ interrupted, layoutKnown: false }))).toEqual({
      act: "Resume",
      operation: interrupted,
    });
  });

  it("resumes an interrupted shrink that is still the target", () => {
    const wanted = target({ sizeBytes: GIB, fromBytes: 4 * GIB, decidedAt: "2026-01-01T00:00:00Z" });
    const decision = decideOperation(facts({ interrupted: shrinkOperation, target: wanted }));
    expect(decision).toEqual({ act: "Resume", operation: shrinkOperation });
  });

  it("gives up an interrupted shrink when the target is another one", () => {
    const decision = decideOperation(facts({ interrupted: shrinkOperation, target: target() }));
    expect(decision).toMatchObject({ act: "Abandon", operation: shrinkOperation });
  });

  it("keeps an interrupted operation waiting while the filesystem is not mounted", () => {
    expect(decideOperation(facts({ mounted: false, interrupted: shrinkOperation }))).toMatchObject({
      reason: "NotMounted",
    });
  });

  it("removes the member once it is unmounted, whatever else is recorded", () => {
    const decision = decideOperation(
      facts({ removalWanted: true, mounted: false, interrupted: shrinkOperation, target: target() }),
    );
    expect(decision).toEqual({ act: "RemoveMember" });
  });
});

describe("a filesystem that shrinks only while it is unmounted", () => {
  const nowMs = Date.parse("2026-01-01T00:05:09Z");
  const unmounted = (change: Partial<OperationFacts> = {}) => facts({ ...unmountedShrink, mounted: false, ...change });

  it("keeps its size while it is mounted, and grows all the same", () => {
    expect(decideOperation(facts(unmountedShrink))).toMatchObject({ act: "Nothing", reason: "WaitingForUnmount" });
    expect(decideOperation(facts({ shrinksOnlyUnmounted: true, target: target() }))).toMatchObject({
      act: "Start",
      kind: "Extend",
    });
  });

  it("shrinks once it is unmounted, before the target's time is over", () => {
    expect(decideUnmountedShrink(unmounted(), nowMs)).toMatchObject({
      kind: "Shrink",
      fromBytes: 4 * GIB,
      toBytes: 1 * GIB,
    });
  });

  it.each<[string, Partial<OperationFacts>, number]>([
    ["when the target's time is over", {}, nowMs + 1000],
    ["at a target that names no time", { target: target({ sizeBytes: 1 * GIB, fromBytes: 4 * GIB }) }, nowMs],
    [
      "at a time that cannot be read",
      { target: target({ sizeBytes: 1 * GIB, fromBytes: 4 * GIB, notAfterMs: Number.NaN }) },
      nowMs,
    ],
    ["while it is mounted", { mounted: true }, nowMs],
    ["what shrinks while it is mounted", { shrinksOnlyUnmounted: false }, nowMs],
    ["before the API server was heard", { layoutKnown: false }, nowMs],
    ["at a size that it was not decided on", { sizeBytes: 5 * GIB }, nowMs],
    ["at a size that is not known", { sizeBytes: undefined }, nowMs],
    ["for a deposed leader", { highestEpoch: 4 }, nowMs],
    ["at a target that has ended", { endedDecidedAt: "2026-01-01T00:00:10Z" }, nowMs],
    ["when it is to be removed", { removalWanted: true }, nowMs],
    [
      "at a target to grow",
      { target: target({ sizeBytes: 8 * GIB, fromBytes: 4 * GIB, notAfterMs: Date.parse("2027-01-01T00:00:00Z") }) },
      nowMs,
    ],
    ["before what was interrupted is ended", { interrupted: shrinkOperation }, nowMs],
  ])("does not shrink %s", (_when, change, atMs) => {
    expect(decideUnmountedShrink(unmounted(change), atMs)).toBeUndefined();
  });

  it.each([true, false])("gives up a shrink that was interrupted, mounted again or not: %s", (mounted) => {
    const interrupted = { ...unmountedShrink, mounted, interrupted: shrinkOperation };
    expect(decideOperation(facts(interrupted))).toMatchObject({ act: "Abandon", operation: shrinkOperation });
  });
});
