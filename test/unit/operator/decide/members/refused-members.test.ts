// A member whose device carries something: it counts as no room, another is made at once, and it is never deleted by anybody but a person.
import { describe, expect, it } from "@jest/globals";
import type { SizeTarget } from "../../../../../src/contracts/kinds/filesystem.ts";
import type {
  FilesystemLayout,
  LastOperation,
  MemberSpec,
} from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { decideStatus } from "../../../../../src/operator/decide/decide-status.ts";
import { decideTarget } from "../../../../../src/operator/decide/decide-target.ts";
import { neededMembers, withRefusal } from "../../../../../src/operator/decide/members/decide-member-state.ts";
import { decideMembers } from "../../../../../src/operator/decide/members/decide-members.ts";
import { decideSpare } from "../../../../../src/operator/decide/members/decide-spare.ts";
import { memberBytesOf } from "../../../../../src/operator/decide/members/member-bytes.ts";
import { buildSpan, type SpanFields } from "../../../../builders/span.ts";
import { buildFilesystem, HANDLE } from "../../../../builders/volume.ts";
import { memberStates } from "../../../../harness/member-states.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const NEXT = "2030-01-01T00:00:00.001Z";
const EXTEND: SizeTarget = { size: "3Gi", from: "2Gi", epoch: 3, decidedAt: DECIDED };
const WHY = "its device /dev/loop7 carries a ext4 signature (UUID 1-2)";

/** Of the layout's members those of these names are not in the filesystem, since their devices carry something. */
function refusing(names: readonly string[], fields: SpanFields): FilesystemLayout {
  const reported = { ...fields.reported, ...Object.fromEntries(names.map((name) => [name, null])) };
  const layout = buildSpan({ ...fields, reported });
  const status = { ...layout.status, refused: names.map((name) => ({ name, message: WHY })) };
  return { ...layout, spec: { ...layout.spec, target: EXTEND }, status };
}

/** As the operator has marked them, and their node has forgotten them. */
function marked({ spec, status, ...rest }: FilesystemLayout): FilesystemLayout {
  const layout = { ...rest, spec, status };
  const { refused: _forgotten, ...said } = status ?? {};
  return { ...layout, spec: { ...spec, members: spec.members?.map((one) => withRefusal(layout, one)) }, status: said };
}

const ended = (layout: FilesystemLayout, fields: Partial<LastOperation> = {}): FilesystemLayout => ({
  ...layout,
  status: {
    ...layout.status,
    lastOperation: {
      kind: "Extend",
      from: "2Gi",
      to: "3Gi",
      reached: "2Gi",
      epoch: 3,
      decidedAt: DECIDED,
      startedAt: DECIDED,
      endedAt: DECIDED,
      outcome: "Failed",
      reason: "SignatureFound",
      ...fields,
    },
  },
});

const facts = (mayGrow: boolean, growthFailed = false, maxMembers = 4, spareMembers = 0) => ({
  rules: { className: "member-class", maxMembers, spareMembers, strategy: "Auto" as const },
  mayGrow,
  growthFailed,
});
const plan = (layout: FilesystemLayout, target: SizeTarget, ...of: Parameters<typeof facts>): string => {
  const decided = decideMembers(layout, target, facts(...of));
  return decided.do === "hold" ? decided.message : memberStates(decided.members).join(", ");
};
const decide = (layout: FilesystemLayout, wanted: SizeTarget | undefined) =>
  decideTarget(layout, buildFilesystem(wanted === undefined ? {} : { target: wanted }));
const TWO = { sizes: ["2Gi", "1Gi"] };
const SPARED: SpanFields = { sizes: ["2Gi", "1Gi", "1Gi"], states: { m2: "Spare" } };
const EMERGENCY = { emergency: true, decidedAt: undefined };
const ONE_REFUSED = refusing(["m1"], TWO);

describe("an extend that failed since a member's device carries something", () => {
  it.each<[string, FilesystemLayout, string]>([
    ["as its node has said it", ended(ONE_REFUSED), NEXT],
    ["as the layout has it, and its node has forgotten it", ended(marked(ONE_REFUSED)), NEXT],
    ["and an emergency came to nothing for the same before it could begin", ended(ONE_REFUSED, EMERGENCY), DECIDED],
  ])("is planned again at once, %s", (_how, layout, decidedAt) => {
    expect(decide(layout, EXTEND)).toEqual({ do: "copy", target: { ...EXTEND, decidedAt } });
    expect(plan(layout, { ...EXTEND, decidedAt }, false)).toBe("m0 2Gi Present, m1 1Gi Spare, m2 1Gi Present");
  });

  it.each<[string, FilesystemLayout]>([
    ["it is still running", { ...ended(ONE_REFUSED), status: { ...ended(ONE_REFUSED).status, operation: running() } }],
    [
      "an emergency came to nothing for the same since: the target may have ended long before, and nobody wants it any more",
      {
        ...ended(ONE_REFUSED, EMERGENCY),
        status: { ...ended(ONE_REFUSED, EMERGENCY).status, endedDecidedAt: DECIDED },
      },
    ],
    ["it failed for another reason", ended(ONE_REFUSED, { reason: "WaitingForMember" })],
    ["a later leader was heard of", { ...ended(ONE_REFUSED), status: { ...ended(ONE_REFUSED).status, epoch: 4 } }],
    ["there is room enough without", ended(refusing(["m1"], { sizes: ["3Gi", "1Gi"] }))],
  ])("is not where %s", (_where, layout) => {
    expect(decide(layout, EXTEND)).toEqual({ do: "keep" });
  });

  it("is planned again where a spare is there that is no part of the filesystem: that is no room which the target has", () => {
    const layout = ended(refusing(["m1"], { ...SPARED, reported: { m2: { state: "Spare" } } }));
    expect(decide(layout, EXTEND)).toEqual({ do: "copy", target: { ...EXTEND, decidedAt: NEXT } });
    expect(plan(layout, { ...EXTEND, decidedAt: NEXT }, false)).toBe("m0 2Gi Present, m1 1Gi Spare, m2 1Gi Present");
    // Taken in by an emergency, of which the layout does not know yet.
    expect(decide(ended(refusing(["m1"], SPARED)), EXTEND)).toEqual({ do: "keep" });
  });

  function running() {
    return { kind: "Extend" as const, from: "2Gi", to: "3Gi", epoch: 3, startedAt: DECIDED, step: "extending" };
  }
});

describe("members whose devices carry something", () => {
  const both = refusing(["m1", "m2"], { sizes: ["2Gi", "1Gi", "1Gi"] });

  it.each<[string, FilesystemLayout, Parameters<typeof facts>, string]>([
    [
      "take no member's place",
      refusing(["m1"], { sizes: ["2Gi", "1Gi"] }),
      [false, false, 2],
      "m1 1Gi Spare, m2 4Gi Present",
    ],
    ["are no more than two", both, [false], "none is added while the devices of m1 and m2 carry something"],
    ["let the last one grow", both, [true], "m0 6Gi Present, m1 1Gi Spare, m2 1Gi Spare"],
    ["let it grow although that has failed, where they are two", both, [true, true], "m0 6Gi Present, m1 1Gi Spare"],
    ["leave their places to others, where that has failed", ONE_REFUSED, [true, true], "m1 1Gi Spare, m2 4Gi Present"],
  ])("%s", (_what, layout, of, expected) => {
    const target = { ...EXTEND, size: "6Gi", decidedAt: NEXT };
    expect(plan(layout, target, ...of)).toContain(expected);
    expect(plan(marked(layout), target, ...of)).toContain(expected);
  });

  it("stay where others leave, and hold up no shrink", () => {
    const layout = refusing(["m2"], {
      sizes: ["2Gi", "1Gi", "1Gi"],
      reported: { m0: { allocated: "0" }, m1: { allocated: "0" } },
    });
    const shrink = { size: "1Gi", from: "3Gi", epoch: 3, decidedAt: NEXT };
    expect(plan(layout, shrink, false)).toBe("m0 2Gi Removed, m1 1Gi Present, m2 1Gi Spare");
    expect(plan(marked(layout), shrink, false)).toBe("m0 2Gi Removed, m1 1Gi Present, m2 1Gi Spare");
  });

  it("count to the quota, since they are paid for, and the hold says how much they have of it", () => {
    expect([ONE_REFUSED, marked(ONE_REFUSED)].map(memberBytesOf)).toEqual([3 * 1024 ** 3, 3 * 1024 ** 3]);
    const quota = {
      namespace: "shop",
      className: "member-class",
      name: "all",
      limitBytes: 3 * 1024 ** 3,
      takenBytes: 0,
    };
    for (const layout of [ONE_REFUSED, marked(ONE_REFUSED)])
      expect(decideMembers(layout, { ...EXTEND, decidedAt: NEXT }, { ...facts(false), quota })).toMatchObject({
        do: "hold",
        reason: "QuotaExceeded",
        message: expect.stringContaining("this volume needs 4Gi, 1Gi of that on refused devices"),
      });
    const wider = { ...quota, limitBytes: 4 * 1024 ** 3 };
    expect(decideMembers(ONE_REFUSED, { ...EXTEND, decidedAt: NEXT }, { ...facts(false), quota: wider }).do).toBe(
      "change",
    );
  });

  it("are needed for no mount", () => {
    expect([ONE_REFUSED, marked(ONE_REFUSED)].map((one) => neededMembers(one).map(({ name }) => name))).toEqual([
      ["m0"],
      ["m0"],
    ]);
  });

  it("are named with what a person can do, and with what was found", () => {
    const { status } = decideStatus(said(marked(ONE_REFUSED)), 0) as { status?: { conditions?: { type: string }[] } };
    expect(status?.conditions?.find(({ type }) => type === "Reconciling")).toMatchObject({
      status: "False",
      reason: "SignatureFound",
      message: expect.stringMatching(
        "^see whose data member m1 has: wipe it on its node to use it, or set its state to Removed: " +
          `${WHY.replace(/[()]/g, ".")}$`,
      ),
    });
  });

  function said(layout: FilesystemLayout) {
    const members = layout.spec.members?.map((one) => ({
      ...one,
      source: { claim: { name: "", ...one.source.claim, volumeHandle: "vol-1" } },
    }));
    return {
      handle: HANDLE,
      filesystem: buildFilesystem(),
      layout: { ...layout, spec: { ...layout.spec, members } },
      missing: [],
      ...{ refusal: undefined, members: undefined, noGrowth: undefined },
      ...{ lostNode: undefined, consolidation: undefined, unfit: undefined },
    };
  }
});

describe("what was made to stay beside the filesystem, and carries something", () => {
  const beside = (fields: Partial<MemberSpec> = {}): FilesystemLayout => {
    const layout = refusing(["m1"], { ...TWO, states: { m1: "Spare" }, granted: "3Gi" });
    const members = layout.spec.members?.map((one) => (one.name === "m1" ? { ...one, ...fields } : one));
    const { target: _none, ...spec } = layout.spec;
    return { ...layout, spec: { ...spec, members }, status: { ...layout.status, nodeName: spec.nodeName } };
  };
  const rules = facts(false, false, 4, 1).rules;

  it("is no spare: another is made, and it is not dropped, however large it is", () => {
    expect(decideSpare(beside(), rules)).toEqual({ do: "order", sizeBytes: 1024 ** 3 });
    expect(decideSpare(beside({ size: "9Gi" }), rules)).toEqual({ do: "order", sizeBytes: 1024 ** 3 });
  });

  it("takes nobody's place, and does not go with the target that it was made for", () => {
    const layout = beside({ replaces: { member: "m0", decidedAt: DECIDED } });
    expect(decide(layout, undefined)).toEqual({ do: "keep" });
    expect(plan(layout, { ...EXTEND, decidedAt: NEXT }, false)).toBe("m0 2Gi Present, m1 1Gi Spare, m2 1Gi Present");
  });

  it("is a spare like any other once somebody has wiped it, and a member once it is in", () => {
    const [, m1] = marked(ONE_REFUSED).spec.members ?? [];
    if (m1 === undefined) throw new Error("no m1");
    const ready = buildSpan({ ...TWO, reported: { m1: { state: "Spare" } } });
    expect(m1.refused).toBe(WHY);
    expect(withRefusal(ready, m1)).toMatchObject({ state: "Spare" });
    expect(withRefusal(ready, m1).refused).toBeUndefined();
    expect(withRefusal(buildSpan(TWO), m1).refused).toBeUndefined();
  });

  it.each<[string, Partial<MemberSpec>]>([
    ["a part of the filesystem", { state: "Present" }],
    ["one that takes another's place", { state: "Spare", replaces: { member: "m0", decidedAt: DECIDED } }],
  ])("stays beside it, and ends no growth, where a person has written that it is %s", (_what, fields) => {
    const written = beside({ ...fields, refused: WHY });
    const layout = { ...written, status: { ...written.status, refused: undefined } };
    const [, m1] = layout.spec.members ?? [];
    if (m1 === undefined) throw new Error("no m1");
    const read = withRefusal(layout, m1);
    expect(read).toMatchObject({ state: "Spare", refused: WHY });
    expect(read).not.toHaveProperty("replaces");
    // What reads as it is written is not written again.
    expect(withRefusal(layout, read)).toBe(read);
    expect(plan(layout, { ...EXTEND, decidedAt: NEXT }, false)).toBe("m0 2Gi Present, m1 1Gi Spare, m2 1Gi Present");
    expect(decideSpare(layout, rules)).toEqual({ do: "order", sizeBytes: 1024 ** 3 });
  });

  it("is taken back where it was asked to go before anything was known against it", () => {
    const withdrawn = beside({ state: "Removed", replaces: { member: "m0", decidedAt: DECIDED } });
    const [m0, m1] = withdrawn.spec.members?.map((one) => withRefusal(withdrawn, one)) ?? [];
    expect(m0).toEqual(withdrawn.spec.members?.[0]);
    expect(m1).toMatchObject({ state: "Spare", refused: WHY });
    expect(m1?.replaces).toBeUndefined();
  });

  it.each<[string, (layout: FilesystemLayout) => FilesystemLayout]>([
    [
      "the whole volume is deleted",
      ({ spec, ...layout }) => ({ ...layout, spec: { ...spec, members: removedAll(spec) } }),
    ],
    ["its node has let go of it", (layout) => reporting(layout, "Removed")],
    ["it is in the filesystem", (layout) => reporting(layout, "Present")],
  ])("is not taken back where %s", (_where, change) => {
    const layout = change(beside({ state: "Removed" }));
    const [, m1] = layout.spec.members ?? [];
    expect(m1 && withRefusal(layout, m1)).toEqual(m1);
  });

  const removedAll = ({ members = [] }: FilesystemLayout["spec"]): MemberSpec[] =>
    members.map((one) => ({ ...one, state: "Removed" }));
  const reporting = (layout: FilesystemLayout, state: "Removed" | "Present"): FilesystemLayout => ({
    ...layout,
    status: { ...layout.status, members: [...(layout.status?.members ?? []), { name: "m1", size: "1Gi", state }] },
  });

  it("goes where a person has asked it to", () => {
    const removed = beside({ state: "Removed", refused: WHY });
    expect(removed.spec.members?.map((one) => withRefusal(removed, one).state)).toEqual(["Present", "Removed"]);
  });
});
