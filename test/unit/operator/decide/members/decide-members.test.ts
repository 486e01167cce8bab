import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { formatQuantity, GIB, parseQuantity } from "../../../../../src/contracts/quantities/quantity.ts";
import {
  decideMembers,
  type MemberClassFacts,
  type MembersPlan,
} from "../../../../../src/operator/decide/members/decide-members.ts";
import type { MemberQuota } from "../../../../../src/operator/decide/members/member-bytes.ts";
import type { Strategy } from "../../../../../src/operator/decide/members/member-rules.ts";
import { buildSpan, type SpanFields } from "../../../../builders/span.ts";
import { HANDLE } from "../../../../builders/volume.ts";
import { property } from "../../../../harness/property.ts";

interface ClassFields {
  readonly quota?: MemberQuota;
  readonly mayGrow?: boolean;
  readonly growthFailed?: boolean;
  readonly strategy?: Strategy;
  readonly maxMembers?: number;
  readonly spareMembers?: number;
}

function classOf({
  mayGrow = false,
  growthFailed = false,
  strategy = "Auto",
  maxMembers = 4,
  spareMembers = 0,
  quota,
}: ClassFields): MemberClassFacts {
  return { rules: { className: "member-class", maxMembers, spareMembers, strategy }, mayGrow, growthFailed, quota };
}

function decide(fields: SpanFields, size: string, ofClass: ClassFields = {}): MembersPlan {
  // From another size than the present one: nothing is replaced for such a shrink.
  const target = { size, from: "1Ti", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
  return decideMembers(buildSpan(fields), target, classOf(ofClass));
}

/** "name size" of those that stay, "(name size)" of a spare, "-name" of those that go, and the target. */
function summary(plan: MembersPlan): string {
  if (plan.do === "hold") return `${plan.reason}: ${plan.message}`;
  const members = plan.members.map(({ name, size, state }) => {
    if (state === "Removed") return `-${name}`;
    return state === "Spare" ? `(${name} ${size})` : `${name} ${size}`;
  });
  return `${members.join(", ")} → ${plan.target?.size}`;
}

it.each([
  ["takes back what shall leave and is still in it", { m2: "Removed" }, {}, "m0 2Gi, m1 1Gi, m2 1Gi → 4Gi"],
  [
    "makes nothing for what has left since it was decided",
    { m2: "Removed" },
    { m2: { state: "Removed" } },
    "m0 2Gi, m1 1Gi, -m2 → 3Gi",
  ],
] as const)("a size that shall stay %s", (_what, states, reported, expected) => {
  const target = { size: "4Gi", from: "4Gi", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
  const layout = buildSpan({ sizes: ["2Gi", "1Gi", "1Gi"], states, reported });
  expect(summary(decideMembers(layout, target, classOf({ mayGrow: true })))).toBe(expected);
});

it("a filesystem that has a member which its layout does not name stays as it is", () => {
  const { spec, ...rest } = buildSpan({ sizes: ["2Gi", "1Gi"] });
  const layout = { ...rest, spec: { ...spec, members: spec.members?.slice(0, 1) } };
  for (const size of ["1Gi", "3Gi", "8Gi"]) {
    const target = { size, from: "3Gi", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
    expect(summary(decideMembers(layout, target, classOf({})))).toMatch(/^MembersMissing: the filesystem has m1/);
  }
});

describe("a target not below the members", () => {
  it.each<[string, SpanFields, string, ClassFields, string]>([
    ["adds one for what is missing, in whole GiB", { sizes: ["2Gi"] }, "3500Mi", {}, "m0 2Gi, m1 2Gi → 3500Mi"],
    [
      "grows the last one where the class lets it",
      { sizes: ["2Gi", "1Gi"] },
      "5Gi",
      { mayGrow: true },
      "m0 2Gi, m1 3Gi → 5Gi",
    ],
    [
      "adds one where the class lets it grow, and a growth has failed",
      { sizes: ["2Gi", "1Gi"] },
      "5Gi",
      { mayGrow: true, growthFailed: true },
      "m0 2Gi, m1 1Gi, m2 2Gi → 5Gi",
    ],
    [
      "grows the last one although a growth has failed, where no other has a place",
      { sizes: ["2Gi", "1Gi"] },
      "5Gi",
      { mayGrow: true, growthFailed: true, maxMembers: 2 },
      "m0 2Gi, m1 3Gi → 5Gi",
    ],
    [
      "grows the last one although a growth has failed, where the strategy says so",
      { sizes: ["2Gi", "1Gi"] },
      "5Gi",
      { mayGrow: true, growthFailed: true, strategy: "GrowMember" },
      "m0 2Gi, m1 3Gi → 5Gi",
    ],
    [
      "adds one where the strategy says so, though it could grow",
      { sizes: ["2Gi"] },
      "3Gi",
      { mayGrow: true, strategy: "AddMember" },
      "m0 2Gi, m1 1Gi → 3Gi",
    ],
    [
      "counts what the node reports, where the driver gave more",
      { sizes: ["2Gi"], reported: { m0: { size: "4Gi" } } },
      "5Gi",
      {},
      "m0 2Gi, m1 1Gi → 5Gi",
    ],
    [
      "counts what is on its way already",
      { sizes: ["2Gi", "2Gi"], reported: { m1: null } },
      "4Gi",
      {},
      "m0 2Gi, m1 2Gi → 4Gi",
    ],
    [
      "takes a removal back that the node has not finished",
      { sizes: ["2Gi", "2Gi"], states: { m1: "Removed" } },
      "4Gi",
      {},
      "m0 2Gi, m1 2Gi → 4Gi",
    ],
    [
      "that they meet already leaves a removal alone",
      { sizes: ["2Gi", "2Gi"], states: { m1: "Removed" } },
      "2Gi",
      {},
      "m0 2Gi, -m1 → 2Gi",
    ],
    [
      "never takes one back that is wiped",
      { sizes: ["2Gi", "2Gi"], states: { m1: "Removed" }, reported: { m1: { state: "Removed" } } },
      "4Gi",
      {},
      "m0 2Gi, -m1, m2 2Gi → 4Gi",
    ],
    ["never uses a name again", { sizes: ["2Gi"], nextMember: 7 }, "3Gi", {}, "m0 2Gi, m7 1Gi → 3Gi"],
  ])("%s", (_what, fields, size, ofClass, expected) => {
    expect(summary(decide(fields, size, ofClass))).toBe(expected);
  });

  it.each<[string, SpanFields, ClassFields, string]>([
    ["maxMembers is reached", { sizes: ["2Gi", "2Gi"] }, { maxMembers: 2 }, "2 members of at most 2 are there"],
    [
      "maxMembers is reached, and one leaves",
      { sizes: ["2Gi", "2Gi", "2Gi"], states: { m2: "Removed" }, reported: { m2: { state: "Removed" } } },
      { maxMembers: 2 },
      "2 members of at most 2 are there",
    ],
    [
      "the last place is the spare's",
      { sizes: ["2Gi", "2Gi"] },
      { maxMembers: 3, spareMembers: 1 },
      "2 members of at most 3 are there, and one place is reserved for the spare",
    ],
    [
      "none may grow and none may be added",
      { sizes: ["2Gi"] },
      { strategy: "GrowMember" },
      "does not allow volume expansion",
    ],
    [
      "members that leave still have the last places",
      {
        sizes: ["1Gi", "1Gi", "1Gi", "1Gi", "1Gi"],
        states: { m3: "Removed", m4: "Removed" },
        reported: { m3: { state: "Removed" }, m4: { state: "Removed" } },
      },
      {},
      "does not allow volume expansion, and no further one has a place before the removal of m3, m4 (3 members of at most 4 stay)",
    ],
  ])("is held where %s", (_what, fields, ofClass, text) => {
    const plan = decide(fields, "9Gi", ofClass);
    expect(plan).toMatchObject({ do: "hold", reason: "MemberLimitReached", message: expect.stringContaining(text) });
  });

  it("names a new member's claim after the volume, and leaves the rest to be found out", () => {
    const plan = decide({ sizes: ["2Gi"] }, "3Gi");
    expect(plan.do === "change" && plan.members[1]).toEqual({
      name: "m1",
      size: "1Gi",
      state: "Present",
      source: { claim: { name: `${HANDLE}-m1` } },
    });
    expect(plan.do === "change" && plan.nextMember).toBe(2);
  });
});

it("a target waits while a rebuilt layout does not say how large a member is", () => {
  const layout = buildSpan({ sizes: ["2Gi", "2Gi"], reported: { m1: null } });
  const members = layout.spec.members?.map(({ size: _size, ...member }) => member);
  const unknown = { ...layout, spec: { ...layout.spec, members } };
  const target = { size: "9Gi", from: "4Gi", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
  expect(decideMembers(unknown, target, classOf({}))).toMatchObject({
    do: "hold",
    reason: "WaitingForNode",
    message: expect.stringContaining("m1"),
  });
});

describe("a spare", () => {
  const READY: SpanFields = { sizes: ["2Gi", "1Gi"], states: { m1: "Spare" }, reported: { m1: { state: "Spare" } } };
  const SPARED = { spareMembers: 1, maxMembers: 3 };

  it.each<[string, SpanFields, string, ClassFields, string]>([
    ["that covers what is missing is taken in at once", READY, "2500Mi", SPARED, "m0 2Gi, m1 1Gi → 2500Mi"],
    ["is taken in before a member grows", READY, "3Gi", { ...SPARED, mayGrow: true }, "m0 2Gi, m1 1Gi → 3Gi"],
    ["is no part of the size", READY, "2Gi", SPARED, "m0 2Gi, (m1 1Gi) → 2Gi"],
    [
      "that does not cover what is missing stays for an emergency",
      READY,
      "5Gi",
      SPARED,
      "m0 2Gi, (m1 1Gi), m2 3Gi → 5Gi",
    ],
    [
      "that its node does not have yet is not waited for",
      { ...READY, reported: { m1: null } },
      "3Gi",
      SPARED,
      "m0 2Gi, (m1 1Gi), m2 1Gi → 3Gi",
    ],
    [
      "that is larger than what is missing is not taken in",
      { ...READY, sizes: ["2Gi", "3Gi"] },
      "3Gi",
      SPARED,
      "m0 2Gi, (m1 3Gi), m2 1Gi → 3Gi",
    ],
    [
      "that is larger is taken in where an emergency might take as much",
      { ...READY, sizes: ["2Gi", "3Gi"], granted: "4500Mi" },
      "3Gi",
      SPARED,
      "m0 2Gi, m1 3Gi → 3Gi",
    ],
    [
      "is not given back by a shrink",
      { ...READY, sizes: ["2Gi", "1Gi", "1Gi"] },
      "2Gi",
      SPARED,
      "m0 2Gi, (m1 1Gi), -m2 → 2Gi",
    ],
  ])("%s", (_what, fields, size, ofClass, expected) => {
    expect(summary(decide(fields, size, ofClass))).toBe(expected);
  });

  it("in the last place is left to an emergency", () => {
    expect(decide(READY, "3Gi", { spareMembers: 1, maxMembers: 2 })).toMatchObject({
      do: "hold",
      reason: "MemberLimitReached",
    });
  });

  it("counts to the quota", () => {
    const quota = { namespace: "shop", className: "member-class", name: "storage", limitBytes: 4 * GIB, takenBytes: 0 };
    expect(decide({ ...READY, reported: { m1: null } }, "4Gi", { ...SPARED, quota })).toMatchObject({
      reason: "QuotaExceeded",
      message: expect.stringContaining("this volume needs 5Gi"),
    });
  });
});

describe("an extend that an emergency came before", () => {
  const extend = (fields: SpanFields, size: string): string => {
    const target = { size, from: "2Gi", epoch: 3, decidedAt: "2030-01-01T00:00:00.000Z" };
    return summary(decideMembers(buildSpan(fields), target, classOf({ spareMembers: 1 })));
  };
  const taken: SpanFields = { sizes: ["2Gi", "1Gi"], states: { m1: "Spare" }, reported: { m1: { state: "Present" } } };

  it("has the spare that was taken in already, though the layout still calls it one, and makes no other", () => {
    expect(extend(taken, "3Gi")).toBe("m0 2Gi, m1 1Gi → 3Gi");
  });

  it("gives nothing back where that went further", () => {
    expect(extend({ ...taken, sizes: ["2Gi", "2Gi"] }, "3Gi")).toBe("m0 2Gi, m1 2Gi → 3Gi");
    expect(extend({ sizes: ["2Gi", "1Gi", "1Gi"] }, "3Gi")).toBe("m0 2Gi, m1 1Gi, m2 1Gi → 3Gi");
  });
});

describe("a target below the members", () => {
  it.each<[string, SpanFields, string, string]>([
    ["gives the one back that fits", { sizes: ["2Gi", "2Gi"] }, "2Gi", "m0 2Gi, -m1 → 2Gi"],
    ["ends at what remains, not at what was asked for", { sizes: ["2Gi", "2Gi"] }, "1Gi", "m0 2Gi, -m1 → 2Gi"],
    ["prefers the largest set", { sizes: ["1Gi", "2Gi", "3Gi"] }, "3Gi", "m0 1Gi, m1 2Gi, -m2 → 3Gi"],
    ["gives several back", { sizes: ["1Gi", "2Gi", "3Gi"] }, "1Gi", "m0 1Gi, -m1, -m2 → 1Gi"],
    [
      "gives the empty one back",
      {
        sizes: ["2Gi", "2Gi", "2Gi"],
        reported: { m0: { allocated: "1Gi" }, m1: { allocated: "0" }, m2: { allocated: "8Mi" } },
      },
      "4Gi",
      "m0 2Gi, -m1, m2 2Gi → 4Gi",
    ],
    ["gives the first back, too", { sizes: ["3Gi", "1Gi"] }, "1Gi", "-m0, m1 1Gi → 1Gi"],
    [
      "counts one that leaves already as gone",
      { sizes: ["2Gi", "2Gi", "2Gi"], states: { m2: "Removed" } },
      "2Gi",
      "m0 2Gi, -m1, -m2 → 2Gi",
    ],
  ])("%s", (_what, fields, size, expected) => {
    expect(summary(decide(fields, size))).toBe(expected);
  });

  it.each<[string, SpanFields, string, string]>([
    ["no member is small enough", { sizes: ["2Gi", "2Gi"] }, "3Gi", "smallest member has 2Gi"],
    ["there is only one", { sizes: ["2Gi"] }, "1Gi", "only one member"],
  ])("is held where %s", (_what, fields, size, text) => {
    expect(decide(fields, size)).toMatchObject({
      do: "hold",
      reason: "ShrinkFloorReached",
      message: expect.stringContaining(text),
    });
  });
});

describe("whatever the target", () => {
  property(
    "a member always stays, none is under what was asked for, and no more are made than there may be",
    { runs: 300, reaches: { "a plan": 0.3, "an extend": 0.1, "a shrink": 0.02 } },
    [
      fc.array(fc.integer({ min: 1, max: 64 }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 1, max: 400 }),
      fc.boolean(),
      fc.constantFrom<Strategy>("Auto", "GrowMember", "AddMember"),
    ],
    (reach, gibs, wanted, mayGrow, asked) => {
      const plan = decide({ sizes: gibs.map((gib) => `${gib}Gi`) }, formatQuantity(wanted * GIB), {
        mayGrow,
        strategy: asked,
      });
      if (plan.do === "hold") return;
      reach("a plan");
      reach(wanted > gibs.reduce((sum, gib) => sum + gib, 0) ? "an extend" : "a shrink");
      const staying = plan.members.filter(({ state }) => state === "Present");
      const bytes = staying.reduce((sum, { size }) => sum + parseQuantity(size ?? "0"), 0);
      expect(staying.length).toBeGreaterThan(0);
      expect(plan.members.length).toBeLessThanOrEqual(4);
      expect(bytes).toBeGreaterThanOrEqual(parseQuantity(plan.target?.size ?? ""));
      expect(bytes).toBeGreaterThanOrEqual(wanted * GIB);
      expect(new Set(plan.members.map(({ name }) => name)).size).toBe(plan.members.length);
    },
  );
});

describe("a quota on the members' class", () => {
  const quotaOf = (limitGiB: number, takenGiB: number): MemberQuota => ({
    className: "member-class",
    name: "storage",
    limitBytes: limitGiB * GIB,
    takenBytes: takenGiB * GIB,
  });

  it.each<[string, SpanFields, string, MemberQuota, string]>([
    ["is used up to its end", { sizes: ["2Gi"] }, "3Gi", quotaOf(5, 2), "m0 2Gi, m1 1Gi → 3Gi"],
    [
      "is not exceeded, rounding up included",
      { sizes: ["2Gi"] },
      "2500Mi",
      quotaOf(4, 2),
      "QuotaExceeded: ResourceQuota storage allows 4Gi of class member-class; others use 2Gi, " +
        "this volume needs 3Gi",
    ],
    [
      "lets a volume become smaller that is over it",
      { sizes: ["2Gi", "1Gi"] },
      "2Gi",
      quotaOf(1, 0),
      "m0 2Gi, -m1 → 2Gi",
    ],
    ["lets a volume stay that is over it", { sizes: ["2Gi", "1Gi"] }, "3Gi", quotaOf(1, 0), "m0 2Gi, m1 1Gi → 3Gi"],
    [
      "lets a removal be taken back, which is paid for until its end",
      { sizes: ["2Gi", "1Gi"], states: { m1: "Removed" } },
      "3Gi",
      quotaOf(3, 0),
      "m0 2Gi, m1 1Gi → 3Gi",
    ],
  ])("%s", (_what, fields, size, quota, expected) => {
    expect(summary(decide(fields, size, { quota }))).toBe(expected);
  });
});
