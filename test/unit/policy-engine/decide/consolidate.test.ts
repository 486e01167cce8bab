import { describe, expect, it } from "@jest/globals";
import { dataProfilesOf } from "../../../../src/contracts/formulas/data-profiles.ts";
import { stepBefore } from "../../../../src/contracts/formulas/decision-order.ts";
import type { WantedTarget } from "../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { explain } from "../../../../src/policy-engine/decide/explain-decision.ts";
import { mostBytes, type Plan } from "../../../../src/policy-engine/decide/plan.ts";
import type { ConsolidationFacts, Facts } from "../../../../src/policy-engine/facts/facts.ts";
import { consolidationFacts } from "../../../../src/policy-engine/gather/gather-facts.ts";
import { NO_CEILINGS, readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { buildFilesystem } from "../../../builders/volume.ts";
import { mounted } from "../../../harness/span-steps.ts";

const HOUR_MS = 3_600_000;
const NEED: ConsolidationFacts = {
  members: 2,
  growthBytes: 4 * GIB,
  sizeBytes: 10 * GIB,
  because: "pod shop/late lacks 2 attach slots",
  underWay: false,
};

function facts(shape: VolumeShape = {}, need: Partial<ConsolidationFacts> = {}): Facts {
  const filesystem = { consolidation: { ...NEED, ...need }, ...shape.filesystem };
  return aVolume({ ...shape, filesystem, claim: { backend: "span", ...shape.claim } });
}

const guarded = (spec: Parameters<typeof readCeilings>[1]) => readCeilings("guard", spec);
const LARGE = guarded({ max: "1Ti" });

describe("a filesystem that is to have fewer members", () => {
  it("is merged where the policy lets it shrink, of the size that it has", () => {
    const plan = decide(facts(), aPolicy(), LARGE);
    expect(plan).toMatchObject({
      kind: "shrink",
      reason: "AttachSlotsNeeded",
      members: 2,
      fromBytes: 10 * GIB,
      sizeBytes: 10 * GIB,
    });
    expect(plan.message).toBe("pod shop/late lacks 2 attach slots; merge its members into 2, of 10Gi");
    expect(mostBytes(plan)).toBe(14 * GIB);
  });

  const night = [{ cron: "0 2 * * *", duration: "3h" }];
  const failed = (outcome: LastOperation["outcome"]) =>
    ({ kind: "Shrink", outcome, endedAtMs: NOW_MS - 1000, reason: undefined, floorBytes: undefined }) as const;
  it.each<[string, Facts, Parameters<typeof aPolicy>[0], string, RegExp]>([
    ["by default: the mode of shrinks is Recommend", facts(), { mode: { extend: "Enforce" } }, "RecommendOnly", /late/],
    [
      "outside of the window of shrinks",
      facts(),
      { behavior: { shrink: { windows: night } } },
      "OutsideWindow",
      /0 2 \*/,
    ],
    [
      "after any change, as shrinks",
      facts({ facts: { changes: { extendsAtMs: [NOW_MS - HOUR_MS], shrinksAtMs: [] } } }),
      {},
      "CoolingDown",
      /6h/,
    ],
    [
      "after one that was cancelled",
      facts({ filesystem: { lastOperation: failed("Cancelled") } }),
      {},
      "ShrinkCancelled",
      /cancelled/,
    ],
    ["while it is suspended", facts(), { suspend: true }, "PolicySuspended", /suspend/],
    [
      "where it would have more than the maximum meanwhile",
      facts(),
      { limits: { min: "1Gi", max: "13Gi" } },
      "AtMaximum",
      /14Gi.*limits.max/,
    ],
    [
      "where what is used leaves no room to move it",
      facts({ usedRatio: 0.79 }),
      { limits: { min: "1Gi", max: "100Gi", minAvailable: "1Gi" } },
      "ShrinkFloorReached",
      /7.90Gi of 10Gi/,
    ],
    ["while Prometheus gives no fresh answer", facts({ facts: { metricsStale: true } }), {}, "StaleMetrics", /late/],
    ["while it is not mounted", facts({ filesystem: { mounted: false } }), {}, "NotMounted", /./],
    [
      "while an operation runs",
      facts({ filesystem: { operationInProgress: "Extend" } }),
      {},
      "OperationInProgress",
      /Extend/,
    ],
    [
      "while no slot is free for the larger member",
      facts({}, { obstacle: "a larger one needs a free slot" }),
      {},
      "NoSlotFree",
      /^a larger one needs a free slot: pod shop.late lacks 2 attach slots$/,
    ],
    [
      "while its data cannot be moved, whatever else is in the way",
      facts({ filesystem: { immovable: "it has 3 snapshots" } }, { obstacle: "a larger one needs a free slot" }),
      {},
      "ShrinkFloorReached",
      /^it has 3 snapshots: pod shop.late lacks 2 attach slots$/,
    ],
    ["while one is under way", facts({}, { underWay: true }), {}, "OperationInProgress", /late/],
  ])("is held %s", (_when, given, policy, reason, message) => {
    const plan = decide(given, aPolicy(policy), LARGE);
    expect(plan).toMatchObject({ kind: "hold", reason });
    expect(plan.message).toMatch(message);
  });

  it("is held within a namespace's budget, which what it has meanwhile counts to", () => {
    const ceilings = guarded({ max: "1Ti", bytesPerNamespace: "12Gi" });
    expect(decide(facts(), aPolicy(), ceilings)).toMatchObject({ kind: "hold", reason: "CeilingReached" });
  });

  it("is held where its data has copies, which no shrink was proven on: a member more would come and none leave", () => {
    const converted = facts();
    const [capacityBytes, usedBytes, dataProfiles] = [5 * GIB, GIB, dataProfilesOf(["raid1"])];
    const shown = { capacityBytes, usedBytes, availableBytes: capacityBytes - usedBytes, dataProfiles };
    const reading = converted.filesystem.reading && { ...converted.filesystem.reading, ...shown };
    const filesystem = { ...converted.filesystem, reading };
    const plan = decide({ ...converted, filesystem }, aPolicy(), LARGE);
    expect(plan).toMatchObject({
      kind: "hold",
      reason: "ShrinkUnsupported",
      message: expect.stringContaining("raid1"),
    });
  });

  it.each([
    ["held where it is larger than 50 GiB meanwhile, and its metadata chunks are of 1 GiB", 45, 10, 42, "hold"],
    ["merged where the same room is enough for the chunks of a smaller one", 45, 4, 42, "shrink"],
    ["held where what is left is less than its chunks", 10, 4, 8.5, "hold"],
    ["merged where it is not", 10, 4, 8, "shrink"],
  ])("is %s", (_what, sizeGib, growthGib, usedGib, kind) => {
    const [capacityBytes, usedBytes] = [sizeGib * GIB, usedGib * GIB];
    const given = facts(
      { filesystem: { sizeBytes: capacityBytes } },
      { sizeBytes: capacityBytes, growthBytes: growthGib * GIB },
    );
    const shown = { capacityBytes, usedBytes, availableBytes: capacityBytes - usedBytes };
    const reading = given.filesystem.reading && { ...given.filesystem.reading, ...shown };
    const filesystem = { ...given.filesystem, reading };
    // No rule of its own fires, and 256 MiB are the reserve.
    const policy = aPolicy({ limits: { min: "1Gi", max: "1Ti", minAvailable: "1Mi" }, rules: [] });
    expect(decide({ ...given, filesystem }, policy, LARGE)).toMatchObject({
      kind,
      reason: kind === "hold" ? "ShrinkFloorReached" : "AttachSlotsNeeded",
    });
  });

  it("that was not finished keeps the size that the peak of the last day needs", () => {
    const smaller = { sizeBytes: 7 * GIB, growthBytes: 0 };
    const policy = aPolicy({ rules: [] });
    expect(decide(facts({ usedRatio: 0.3, peakRatio: 0.4 }, smaller), policy, LARGE)).toMatchObject({ kind: "shrink" });
    expect(decide(facts({ usedRatio: 0.3, peakRatio: 0.68 }, smaller), policy, LARGE)).toMatchObject({
      kind: "hold",
      reason: "ShrinkFloorReached",
      message: expect.stringMatching(/6\.[78]\d*Gi of 7Gi are used/),
    });
  });

  it("is held without a policy, and by a ceiling on modes", () => {
    expect(decide(facts(), undefined, NO_CEILINGS)).toMatchObject({ reason: "NoPolicy" });
    const plan = decide(facts(), aPolicy(), guarded({ max: "1Ti", modes: { shrink: "Recommend" } }));
    expect(plan).toMatchObject({ kind: "hold", reason: "RecommendOnly" });
  });

  it.each<[string, Facts, Partial<Plan>]>([
    ["an extend", facts({ usedRatio: 0.9 }, { underWay: true }), { kind: "extend" }],
    [
      "a shrink, which gives members back by itself",
      facts({ usedRatio: 0.1 }),
      { kind: "shrink", reason: "RuleFired" },
    ],
  ])("waits for %s", (_what, given, expected) => {
    const plan = decide(given, aPolicy(), LARGE);
    expect(plan).toMatchObject(expected);
    expect(plan).not.toHaveProperty("members", 2);
  });

  it("is explained", () => {
    const told = explain(facts(), aPolicy(), LARGE).facts.find(({ name }) => name === "fewer members");
    expect(told?.value).toBe(NEED.because);
  });
});

describe("what Filesystem and layout say of fewer members", () => {
  const DECIDED_MS = NOW_MS - 60_000;
  const at = (ms: number): string => new Date(ms).toISOString();
  const target: WantedTarget = { size: "4Gi", from: "4Gi", epoch: 1, decidedAt: at(DECIDED_MS), members: 1 };
  const need = { pod: "shop/late", node: "node-a", members: 2, growth: "2Gi", message: "it lacks slots" };

  function told(layout: FilesystemLayout, sizeGib: number, wanted: WantedTarget | undefined, nowMs = NOW_MS) {
    const base = buildFilesystem();
    const spec = wanted === undefined ? base.spec : { ...base.spec, target: wanted };
    const filesystem = { ...base, spec, status: { ...base.status, consolidation: need } };
    return consolidationFacts(filesystem, layout, sizeGib * GIB, nowMs);
  }

  const wide = mounted("1Gi", "1Gi", "1Gi", "1Gi");
  const ended = (change: Partial<LastOperation>): FilesystemLayout => {
    const lastOperation = {
      kind: "Shrink",
      outcome: "FloorReached",
      decidedAt: at(DECIDED_MS),
      startedAt: at(DECIDED_MS),
      ...change,
    };
    return { ...wide, status: { ...wide.status, lastOperation } } as FilesystemLayout;
  };
  const carrying = (decidedAt: string): FilesystemLayout => {
    const carried = { size: "7Gi", from: "4Gi", epoch: 1, decidedAt };
    return { ...wide, spec: { ...wide.spec, target: carried } };
  };
  const running = (layout: FilesystemLayout): FilesystemLayout => {
    const operation = {
      kind: "Extend",
      from: "4Gi",
      to: "7Gi",
      epoch: 1,
      startedAt: at(DECIDED_MS),
      step: "",
    } as const;
    return { ...layout, status: { ...layout.status, operation } };
  };
  const madeForIt = (member: MemberSpec, index: number): MemberSpec =>
    index < 3 ? member : { ...member, replaces: { member: "m0", decidedAt: at(DECIDED_MS) } };
  const GRANT = { size: "8Gi", minAvailable: "300Mi", expiry: at(NOW_MS + 60_000) };
  const FOR_POD = { members: 2, growthBytes: 2 * GIB, underWay: false };

  it.each<[string, FilesystemLayout, number, WantedTarget | undefined, Partial<ConsolidationFacts>]>([
    ["a pod wants it", wide, 4, undefined, { ...FOR_POD, sizeBytes: 4 * GIB, because: "it lacks slots" }],
    ["a target without members is of no matter", wide, 4, { ...target, members: undefined }, FOR_POD],
    ["it is under way", wide, 4, target, { members: 1, underWay: true }],
    [
      "there is room, and nothing has left",
      carrying(stepBefore(at(DECIDED_MS))),
      7,
      target,
      { members: 1, underWay: true, sizeBytes: 4 * GIB, growthBytes: 0 },
    ],
    [
      "it ended larger than before, and is finished at that size",
      ended({}),
      7,
      target,
      { members: 1, underWay: false, sizeBytes: 4 * GIB, growthBytes: 0 },
    ],
    [
      "its leader was deposed in the middle, and it is finished by the next one",
      { ...wide, spec: { ...wide.spec, emergency: { ...GRANT, epoch: 2 } } },
      6,
      target,
      { members: 1, underWay: false, sizeBytes: 4 * GIB, growthBytes: 0 },
    ],
    [
      "its leader was deposed before it began",
      { ...wide, spec: { ...wide.spec, emergency: { ...GRANT, epoch: 2 } } },
      4,
      target,
      FOR_POD,
    ],
    [
      "an extend of the leader before ended after it was decided, so that the operator begins nothing",
      carrying(at(DECIDED_MS - 60_000)),
      7,
      target,
      { members: 1, underWay: false, sizeBytes: 4 * GIB, growthBytes: 0 },
    ],
    [
      "such an extend still runs",
      running(carrying(at(DECIDED_MS - 60_000))),
      7,
      target,
      { members: 1, underWay: true },
    ],
    [
      "a new member is made for it, and the size has changed since",
      { ...wide, spec: { ...wide.spec, members: wide.spec.members?.map(madeForIt) } },
      7,
      target,
      { members: 1, underWay: true },
    ],
    ["it is done, and another pod waits", ended({ outcome: "Succeeded" }), 4, target, FOR_POD],
    ["its member could not grow", ended({ outcome: "Failed", decidedAt: at(DECIDED_MS - 1) }), 4, target, FOR_POD],
    [
      "the clock of its node was ahead in an emergency before it was decided",
      ended({
        kind: "Extend",
        outcome: "Succeeded",
        decidedAt: undefined,
        emergency: true,
        startedAt: at(DECIDED_MS + 3_600_000),
      }),
      4,
      target,
      { members: 1, underWay: true },
    ],
    [
      "an emergency has come since",
      ended({ emergency: true, startedAt: at(DECIDED_MS + 5) }),
      7,
      target,
      { ...FOR_POD, sizeBytes: 7 * GIB },
    ],
  ])("%s", (_what, layout, sizeGib, wanted, expected) => {
    expect(told(layout, sizeGib, wanted)).toMatchObject(expected);
  });

  it("it is decided anew after ten minutes", () => {
    expect(told(wide, 4, target, DECIDED_MS + 600_000)).toMatchObject(FOR_POD);
    expect(told(wide, 7, target, DECIDED_MS + 600_000)).toMatchObject({
      members: 1,
      sizeBytes: 4 * GIB,
      underWay: false,
    });
  });

  it("no other backend has members to merge", () => {
    expect(told({ ...wide, spec: { ...wide.spec, backend: "lvm" } }, 4, target)).toBeUndefined();
  });
});
