import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { filesystemSizeBytes } from "../../../../../src/contracts/formulas/filesystem-size.ts";
import type { WantedTarget } from "../../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { formatQuantity, GIB, parseQuantity } from "../../../../../src/contracts/quantities/quantity.ts";
import { targetFields } from "../../../../../src/operator/decide/decide-layout-write.ts";
import { decideTarget } from "../../../../../src/operator/decide/decide-target.ts";
import { hasBegun, isOnlyOrdered, isWhole } from "../../../../../src/operator/decide/members/decide-consolidation.ts";
import { decideMemberState, neededMembers } from "../../../../../src/operator/decide/members/decide-member-state.ts";
import { decideMembers, type MembersPlan } from "../../../../../src/operator/decide/members/decide-members.ts";
import { withoutEndedMark } from "../../../../../src/operator/decide/members/decide-replacement.ts";
import { buildFilesystem } from "../../../../builders/volume.ts";
import { memberStates } from "../../../../harness/member-states.ts";
import { property } from "../../../../harness/property.ts";
import { carriedOut, holding, mounted, summary, unmounted, withLast, written } from "../../../../harness/span-steps.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const LATER = "2030-01-01T00:10:00.000Z";
const FIRST = "2029-12-31T23:59:59.999Z";
const RULES = { className: "member-class", maxMembers: 4, spareMembers: 0, strategy: "Auto" as const };
const FACTS = { rules: RULES, mayGrow: true, growthFailed: false };

const SNAPSHOTS = "it has 3 snapshots";
const immovable = (layout: FilesystemLayout): FilesystemLayout => ({
  ...layout,
  status: { ...layout.status, immovable: SNAPSHOTS },
});

type Merging = WantedTarget & { members: number };

function mergeOf(layout: FilesystemLayout, members: number, change: Partial<WantedTarget> = {}): Merging {
  const size = formatQuantity(filesystemSizeBytes(layout) ?? 0);
  return { size, from: size, epoch: 3, decidedAt: DECIDED, ...change, members };
}

const decide = (layout: FilesystemLayout, target: WantedTarget): MembersPlan => decideMembers(layout, target, FACTS);
const step = (layout: FilesystemLayout, target: WantedTarget): FilesystemLayout =>
  written(layout, decide(layout, target));

describe("a filesystem whose members are merged", () => {
  it("grows the one that stays by what leaves, and only then lets the others leave", () => {
    let layout = mounted("1Gi", "1Gi", "1Gi", "1Gi");
    const target = mergeOf(layout, 1);
    layout = step(layout, target);
    expect(summary(layout)).toBe("m0 4Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present");
    expect(layout.spec.target).toEqual({ size: "7Gi", from: "4Gi", epoch: 3, decidedAt: FIRST });
    // Not before its node has it.
    expect(decide(layout, target)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
    layout = step(carriedOut(layout), target);
    expect(summary(layout)).toBe("m0 4Gi Present, m1 1Gi Removed, m2 1Gi Removed, m3 1Gi Removed");
    expect(layout.spec.target).toEqual({ size: "4Gi", from: "7Gi", epoch: 3, decidedAt: DECIDED });
    expect(summary(carriedOut(layout))).toBe("m0 4Gi Present");
  });

  it.each<[string, string[], number, string, string]>([
    ["the smallest leave", ["1Gi", "4Gi", "2Gi"], 2, "m0 1Gi Removed, m1 5Gi Present, m2 2Gi Present", "7Gi"],
    ["of equal ones the last leave", ["2Gi", "2Gi", "2Gi"], 2, "m0 4Gi Present, m1 2Gi Present, m2 2Gi Removed", "6Gi"],
    ["a member has whole GiB", ["3Gi", "1500Mi"], 1, "m0 5Gi Present, m1 1500Mi Removed", "5Gi"],
  ])("%s", (_what, sizes, members, expected, size) => {
    const layout = mounted(...sizes);
    const target = mergeOf(layout, members);
    const leaving = step(carriedOut(step(layout, target)), target);
    expect(summary(leaving)).toBe(expected);
    expect(leaving.spec.target?.size).toBe(size);
  });

  it("merges the empty ones, of equal ones", () => {
    const layout = holding(mounted("2Gi", "2Gi", "2Gi"), "0", "1Gi", "1Gi");
    const target = mergeOf(layout, 2);
    const grown = step(layout, target);
    expect(summary(grown)).toBe("m0 2Gi Present, m1 4Gi Present, m2 2Gi Present");
    const told = holding(carriedOut(grown), "0", "1Gi", "1Gi");
    expect(summary(step(told, target))).toBe("m0 2Gi Removed, m1 4Gi Present, m2 2Gi Present");
  });

  it("is left as it is where there are no more members than that", () => {
    const layout = mounted("1Gi", "1Gi");
    const after = step(layout, mergeOf(layout, 2));
    expect(summary(after)).toBe("m0 1Gi Present, m1 1Gi Present");
    expect(after.spec.target).toMatchObject({ size: "2Gi", from: "2Gi", decidedAt: DECIDED });
  });

  it.each<[string, FilesystemLayout, string]>([
    ["it is not mounted", unmounted(mounted("1Gi", "1Gi")), "WaitingForMember"],
    ["a member is leaving", leavingOne(mounted("1Gi", "1Gi", "1Gi")), "WaitingForMember"],
    ["an operation runs", running(mounted("1Gi", "1Gi")), "WaitingForMember"],
    ["it has another size than it was decided on", mounted("1Gi", "2Gi"), "ShrinkFloorReached"],
  ])("is not touched while %s", (_when, layout, reason) => {
    expect(decide(layout, mergeOf(mounted("1Gi", "1Gi"), 1))).toMatchObject({ do: "hold", reason });
  });

  it.each([true, false])("makes and grows nothing while its data cannot be moved (mayGrow: %s)", (mayGrow) => {
    const layout = immovable(mounted("1Gi", "1Gi", "1Gi"));
    const plan = decideMembers(layout, mergeOf(layout, 1), { ...FACTS, mayGrow });
    expect(plan).toMatchObject({
      do: "hold",
      reason: "ShrinkFloorReached",
      message: expect.stringContaining(SNAPSHOTS),
    });
  });

  it("lets go of the new one that it has made where data cannot be moved any more", () => {
    const by = { ...FACTS, mayGrow: false };
    const layout = mounted("1Gi", "1Gi", "1Gi");
    const target = mergeOf(layout, 1);
    const ordered = written(layout, decideMembers(layout, target, by));
    expect(summary(ordered)).toContain("m3 3Gi Spare");
    const dropped = written(ordered, decideMembers(immovable(carriedOut(ordered)), target, by));
    expect(summary(dropped)).toBe("m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 3Gi Removed");
    expect(dropped.spec.target).toMatchObject({ size: "3Gi", from: "3Gi", decidedAt: DECIDED });
  });

  it("counts to the quota with what it has meanwhile", () => {
    const layout = mounted("2Gi", "2Gi");
    const quota = { namespace: "shop", className: "member-class", name: "storage", limitBytes: 5 * GIB, takenBytes: 0 };
    const plan = decideMembers(layout, mergeOf(layout, 1), { ...FACTS, quota });
    expect(plan).toMatchObject({ do: "hold", reason: "QuotaExceeded", message: expect.stringContaining("6Gi") });
  });

  it("tells no node how many members were meant", () => {
    const layout = mounted("1Gi", "1Gi");
    const decided = targetFields(layout, mergeOf(layout, 1), FACTS, 0);
    expect("fields" in decided && decided.fields.target).not.toHaveProperty("members");
  });
});

describe("what comes between the steps of a merge", () => {
  const begun = mounted("1Gi", "1Gi", "1Gi");
  const target = mergeOf(begun, 1);
  const growing = step(begun, target);
  const grown = carriedOut(growing);
  const leaving = step(grown, target);

  it("a removal that found its floor is tried again without growing anything once more", () => {
    for (const outcome of ["FloorReached", "Cancelled"] as const) {
      const layout = carriedOut(leaving, outcome);
      expect(summary(layout)).toBe("m0 3Gi Present, m1 1Gi Present, m2 1Gi Present");
      const again = mergeOf(layout, 1, { size: "3Gi", decidedAt: LATER });
      expect(summary(step(layout, again))).toBe("m0 3Gi Present, m1 1Gi Removed, m2 1Gi Removed");
      expect(step(layout, again).spec.target).toMatchObject({ size: "3Gi", from: "5Gi", decidedAt: LATER });
    }
  });

  it("the extend of a former leader, which ran already, brings the size that it grows to: the others leave", () => {
    const again = mergeOf(begun, 1, { decidedAt: LATER });
    const repeated = step({ ...growing, status: begun.status }, again);
    const byFormer = { ...repeated, status: carriedOut(growing).status } as FilesystemLayout;
    expect(summary(step(byFormer, again))).toBe("m0 3Gi Present, m1 1Gi Removed, m2 1Gi Removed");
  });

  it("a leader that is deposed before its node lets the others leave: the next one's decision lets them, or others, leave", () => {
    expect(summary(leaving)).toBe("m0 3Gi Present, m1 1Gi Removed, m2 1Gi Removed");
    const refused = { ...leaving, status: { ...grown.status, epoch: 4 } } as FilesystemLayout;
    const again = mergeOf(grown, 1, { size: "3Gi", decidedAt: LATER, epoch: 4 });
    expect(summary(step(refused, again))).toBe("m0 3Gi Present, m1 1Gi Removed, m2 1Gi Removed");
    expect(step(refused, again).spec.target).toEqual({ size: "3Gi", from: "5Gi", epoch: 4, decidedAt: LATER });
    const two = mergeOf(grown, 2, { size: "3Gi", decidedAt: LATER, epoch: 4 });
    expect(summary(step(refused, two))).toBe("m0 3Gi Present, m1 1Gi Present, m2 1Gi Removed");
    const busy = running(refused);
    expect(decide(busy, again)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
  });

  it("an emergency ends it: nothing leaves", () => {
    const surged = withLast(grown, { decidedAt: undefined, emergency: true });
    expect(decide(surged, target)).toMatchObject({ do: "hold", message: expect.stringContaining("deciding again") });
  });

  it("a member that could not grow ends it", () => {
    const failed = carriedOut(growing, "Failed");
    const unchanged = { ...failed, status: { ...failed.status, members: begun.status?.members } } as FilesystemLayout;
    expect(decide(unchanged, target)).toMatchObject({ do: "hold", reason: "ShrinkFloorReached" });
  });

  it("a growth that has begun goes on where its class fails meanwhile", () => {
    const plan = decideMembers({ ...growing, status: begun.status }, target, {
      ...FACTS,
      growthFailed: true,
    });
    expect(plan).toMatchObject({ do: "hold", message: expect.stringContaining("m0 grows to 3Gi") });
  });

  it("an extend takes back what was to leave", () => {
    const after = step(leaving, { size: "6Gi", from: "5Gi", epoch: 3, decidedAt: LATER });
    expect(summary(after)).toBe("m0 3Gi Present, m1 1Gi Present, m2 2Gi Present");
  });

  it("a second decision waits for the same growth", () => {
    const again = mergeOf(begun, 1, { decidedAt: LATER });
    const repeated = step({ ...growing, status: begun.status }, again);
    expect(summary(repeated)).toBe(summary(growing));
    expect(repeated.spec.target).toMatchObject({ size: "5Gi", from: "3Gi" });
  });

  it("it has begun from the first write on, and not before", () => {
    expect([begun, growing, grown, leaving].map((layout) => hasBegun(layout, target))).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  it("is carried on after each step, until the last one is written", () => {
    const filesystem = buildFilesystem();
    const wanted = { ...filesystem, spec: { ...filesystem.spec, target } };
    const plans = [begun, growing, grown, leaving].map((layout) => decideTarget(layout, wanted).do);
    expect(plans).toEqual(["copy", "copy", "copy", "keep"]);
  });
});

const FIXED = { ...FACTS, mayGrow: false };
function withGrant(layout: FilesystemLayout, epoch: number): FilesystemLayout {
  const emergency = { size: "9Gi", minAvailable: "1Gi", expiry: "2031-01-01T00:00:00Z", epoch };
  return { ...layout, spec: { ...layout.spec, emergency } };
}
const replace = (layout: FilesystemLayout, target: WantedTarget): FilesystemLayout =>
  written(layout, decideMembers(layout, target, FIXED));

describe("a filesystem whose members cannot grow", () => {
  const begun = mounted("1Gi", "1Gi", "1Gi", "1Gi");
  const target = mergeOf(begun, 2);
  const ordered = replace(begun, target);
  const ready = carriedOut(ordered);
  const adding = replace(ready, target);
  const added = carriedOut(adding);
  const leaving = replace(added, target);

  it("has a larger one made beside it, taken in, and only then lets as many leave as it was to free and one more", () => {
    expect(summary(ordered)).toBe("m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present, m4 3Gi Spare");
    expect(ordered.spec.target).toBeUndefined();
    expect(decideMembers(ordered, target, FIXED)).toMatchObject({
      do: "hold",
      reason: "WaitingForMember",
      message: expect.stringContaining("m4 of 3Gi is to come first"),
    });
    expect(summary(adding)).toBe("m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present, m4 3Gi Present");
    expect(adding.spec.target).toEqual({ size: "7Gi", from: "4Gi", epoch: 3, decidedAt: FIRST });
    expect(decideMembers(adding, target, FIXED)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
    expect(summary(leaving)).toBe("m0 1Gi Present, m1 1Gi Removed, m2 1Gi Removed, m3 1Gi Removed, m4 3Gi Present");
    expect(leaving.spec.target).toEqual({ size: "4Gi", from: "7Gi", epoch: 3, decidedAt: DECIDED });
    expect(summary(carriedOut(leaving))).toBe("m0 1Gi Present, m4 3Gi Present");
  });

  it("takes it in as its driver has made it, where that is less than 1 GiB more", () => {
    const devices = { m4: "3300Mi" };
    const larger = replace(carriedOut(ordered, "Succeeded", devices), target);
    expect(larger.spec.target).toMatchObject({ size: "7396Mi", from: "4Gi" });
    const left = replace(carriedOut(larger, "Succeeded", devices), target);
    expect(summary(left)).toBe(summary(leaving));
    expect(left.spec.target).toMatchObject({ size: "4324Mi", from: "7396Mi", decidedAt: DECIDED });
  });

  it("lets go of one that its driver has made larger than that, and has none made as long as that is remembered", () => {
    const plan = decideMembers(carriedOut(ordered, "Succeeded", { m4: "4Gi" }), target, FIXED);
    expect(plan).toMatchObject({ do: "change", target: { size: "4Gi", from: "4Gi", decidedAt: DECIDED } });
    const rounding = { askedBytes: 3 * GIB, gotBytes: 4 * GIB };
    expect(plan).toMatchObject({
      rounding,
      members: expect.arrayContaining([expect.objectContaining({ state: "Removed" })]),
    });
    expect(decideMembers(begun, target, { ...FIXED, roundings: [rounding] })).toMatchObject({
      do: "hold",
      message: expect.stringContaining("members of 4Gi or more where 3Gi"),
    });
    // One of less may be had.
    expect(
      summary(written(begun, decideMembers(begun, mergeOf(begun, 3), { ...FIXED, roundings: [rounding] }))),
    ).toContain("m4 2Gi Spare");
  });

  it("is one whose strategy is AddMember as well", () => {
    const facts = { rules: { ...RULES, strategy: "AddMember" as const }, mayGrow: true, growthFailed: false };
    expect(summary(written(begun, decideMembers(begun, target, facts)))).toBe(summary(ordered));
  });

  it("has never more than one member beyond what a layout may have", () => {
    const full = mounted("1Gi", "1Gi", "1Gi", "1Gi", "1Gi");
    expect(decideMembers(full, mergeOf(full, 2), FIXED)).toMatchObject({
      do: "hold",
      message: expect.stringContaining("5 members"),
    });
  });

  it("counts to the quota with both", () => {
    const quota = { namespace: "shop", className: "member-class", name: "storage", limitBytes: 6 * GIB, takenBytes: 0 };
    expect(decideMembers(begun, target, { ...FIXED, quota })).toMatchObject({
      do: "hold",
      reason: "QuotaExceeded",
      message: expect.stringContaining("7Gi"),
    });
  });

  it("has begun from the order on, and is carried on until the last step is written", () => {
    const layouts = [begun, ordered, ready, adding, added, leaving];
    expect(layouts.map((layout) => hasBegun(layout, target))).toEqual([false, true, true, true, true, true]);
    expect(layouts.map((layout) => isOnlyOrdered(layout, target))).toEqual([false, true, true, false, false, false]);
    const filesystem = buildFilesystem();
    const wanted = { ...filesystem, spec: { ...filesystem.spec, target } };
    const plans = layouts.map((layout) => decideTarget(layout, wanted).do);
    expect(plans).toEqual(["copy", "copy", "copy", "copy", "copy", "keep"]);
  });

  it("gives the larger one back where the others could not leave, and keeps it for another try where a writer came between", () => {
    const kept = carriedOut(leaving, "Cancelled");
    expect(summary(kept)).toBe("m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present, m4 3Gi Present");
    const unmarked = {
      ...kept,
      spec: { ...kept.spec, members: kept.spec.members?.map((one) => withoutEndedMark(kept, one)) },
    };
    const again = replace(unmarked, mergeOf(unmarked, 2, { size: "4Gi", decidedAt: LATER }));
    expect(summary(again)).toBe(summary(leaving));
    expect(again.spec.target).toMatchObject({ size: "4Gi", from: "7Gi", decidedAt: LATER });

    const stuck = carriedOut(leaving, "FloorReached");
    const filesystem = buildFilesystem();
    const plan = decideTarget(stuck, { ...filesystem, spec: { ...filesystem.spec, target } });
    if (plan.do !== "copy") throw new Error(plan.do);
    expect(summary(replace(stuck, plan.target))).toBe(
      "m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present, m4 3Gi Removed",
    );
  });

  it("has members like any others once it is done, also where it was decided again that there is nothing to do", () => {
    const done = carriedOut(leaving);
    const target = { size: "4Gi", from: "4Gi", epoch: 3, decidedAt: LATER };
    const again = { ...done, spec: { ...done.spec, target } };
    for (const layout of [done, again]) {
      const unmarked = layout.spec.members?.map((one) => withoutEndedMark(layout, one)) ?? [];
      expect(unmarked.filter(({ replaces }) => replaces !== undefined)).toEqual([]);
    }
  });

  it("lets the larger one go that its node could not take in, and stays as it was", () => {
    const refused = carriedOut(adding, "Failed");
    const status = { ...refused.status, members: ready.status?.members };
    const layout = { ...refused, status } as FilesystemLayout;
    const after = replace(layout, target);
    expect(summary(after)).toBe("m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 1Gi Present, m4 3Gi Removed");
    expect(after.spec.target).toEqual({ size: "4Gi", from: "4Gi", epoch: 3, decidedAt: DECIDED });
    // Whether it is part of one that is mounted nowhere is not known.
    expect(decideMembers(unmounted(layout), target, FIXED)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
  });

  it("keeps the larger one as a spare, which takes no slot, while it is mounted nowhere, whatever is decided then", () => {
    const away = unmounted(ready);
    const after = replace(away, { size: "4Gi", from: "4Gi", epoch: 3, decidedAt: LATER });
    expect(after.spec.members?.find(({ name }) => name === "m4")).toMatchObject({ state: "Spare" });
    expect(neededMembers(after).map(({ name }) => name)).not.toContain("m4");
  });

  it("lets the larger one go where the next leader was heard of before it was taken in, as soon as it is mounted", () => {
    const filesystem = buildFilesystem({ target });
    const stranded = withGrant(ready, 4);
    const plan = decideTarget(stranded, filesystem);
    expect(plan).toMatchObject({ do: "withdraw" });
    const members = plan.do === "withdraw" ? plan.members : [];
    expect(memberStates(members).join(", ")).toBe(summary(ready).replace("m4 3Gi Spare", "m4 3Gi Removed"));
    expect(decideTarget(withGrant(ready, 3), filesystem).do).toBe("copy");
    expect(decideTarget(unmounted(stranded), filesystem).do).toBe("keep");
    expect(decideTarget(ready, buildFilesystem()).do).toBe("withdraw");
    // An emergency was faster.
    const taken = ready.status?.members?.map((one) => ({ ...one, state: "Present" as const })) ?? [];
    expect(decideTarget({ ...stranded, status: { ...stranded.status, members: taken } }, filesystem).do).toBe("keep");
  });

  it("lets the larger one go that its node refused for a deposed leader, once the next one wants the present size", () => {
    const beside = { ...withGrant(adding, 4), status: ready.status } as FilesystemLayout;
    const present: WantedTarget = { size: "4Gi", from: "4Gi", epoch: 4, decidedAt: LATER };
    expect(summary(replace(beside, present))).toBe(summary(adding).replace("m4 3Gi Present", "m4 3Gi Removed"));
    // Not while it may be inside, nor while others are asked to leave to it.
    expect(summary(replace(unmounted(beside), present))).toBe(summary(adding));
    const leaves = (beside.spec.members ?? []).map((one) =>
      one.name === "m0" ? { ...one, state: "Removed" as const } : one,
    );
    const going = replace({ ...beside, spec: { ...beside.spec, members: leaves } }, present);
    expect(summary(going)).toContain("m4 3Gi Present");
  });

  it("has a member like any other once an emergency came between the steps, so that spares are made again", () => {
    const surge = { decidedAt: undefined, emergency: true, startedAt: "2030-01-01T00:00:05.000Z" } as const;
    const settledOf = (layout: FilesystemLayout): FilesystemLayout => {
      const members = layout.spec.members?.map((one) => withoutEndedMark(layout, one)) ?? [];
      return { ...layout, spec: { ...layout.spec, members } };
    };
    const marked = ({ spec }: FilesystemLayout) => spec.members?.filter(({ replaces }) => replaces).length;
    const surged = withLast(added, surge);
    expect(marked(settledOf(surged))).toBe(0);
    expect(isWhole(settledOf(surged))).toBe(true);
    expect(decideMembers(settledOf(surged), target, FIXED)).toMatchObject({ do: "hold", reason: "ShrinkFloorReached" });
    // One from before is none of its business, and one that is beside it still waits for its target.
    const before = { ...surge, startedAt: "2029-01-01T00:00:00.000Z" };
    expect([marked(settledOf(withLast(added, before))), marked(settledOf(withLast(ready, surge)))]).toEqual([1, 1]);
  });

  it("keeps the larger one that an extend has taken in after it was dropped, for another try", () => {
    const refused = carriedOut(adding, "Failed");
    const dropped = replace(
      { ...refused, status: { ...refused.status, members: ready.status?.members ?? [] } },
      target,
    );
    expect(summary(dropped)).toContain("m4 3Gi Removed");
    const settledOf = (layout: FilesystemLayout): FilesystemLayout => {
      const members = layout.spec.members?.map((one) => ({
        ...withoutEndedMark(layout, one),
        state: decideMemberState(layout, one),
      }));
      return { ...layout, spec: { ...layout.spec, members: members ?? [] } };
    };
    expect(summary(settledOf(dropped))).toContain("m4 3Gi Removed");
    const members = (dropped.status?.members ?? []).map((one) => ({ ...one, state: "Present" as const }));
    const inside = settledOf({ ...dropped, status: { ...dropped.status, members } });
    expect(summary(inside)).toContain("m4 3Gi Present");
    expect(isWhole(inside)).toBe(true);
    const again = mergeOf(inside, 2, { size: "4Gi", decidedAt: LATER });
    expect(summary(replace(inside, again))).toBe(summary(leaving));
  });

  it("has what an extend wants at once, though the larger one is on its way out", () => {
    const three = mounted("1Gi", "1Gi", "1Gi");
    const waits = replace(three, mergeOf(three, 1));
    const extend: WantedTarget = { size: "4Gi", from: "3Gi", epoch: 3, decidedAt: LATER };
    const extended = "m0 1Gi Present, m1 1Gi Present, m2 1Gi Present, m3 3Gi Removed, m4 1Gi Present";
    expect(summary(replace(waits, extend))).toBe(extended);
    expect(replace(waits, extend).spec.target).toEqual(extend);
    const withdrawn = waits.spec.members?.map((one) => (one.replaces ? { ...one, state: "Removed" as const } : one));
    const going = { ...waits, spec: { ...waits.spec, members: withdrawn ?? [] } };
    expect(summary(replace(going, extend))).toBe(extended);
  });

  it("stays as it was where an emergency came while the larger one was on its way", () => {
    const surged = withLast(mounted("1Gi", "1Gi", "1Gi", "2Gi"), { decidedAt: undefined, emergency: true });
    const layout = {
      ...ready,
      status: {
        ...surged.status,
        members: [...(surged.status?.members ?? []), ...(ready.status?.members?.slice(4) ?? [])],
      },
    };
    expect(decideMembers(layout as FilesystemLayout, target, FIXED)).toMatchObject({
      do: "hold",
      reason: "WaitingForMember",
    });
    const later = replace(layout, { size: "6Gi", from: "5Gi", epoch: 3, decidedAt: LATER });
    expect(summary(later)).toContain("m4 3Gi Removed");
  });
});

describe("whatever the sizes, it ends with no more members than wanted, and is never smaller than before", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 64 * 1024 }), { minLength: 2, maxLength: 4 });
  const expectMerged = (
    [mibs, members]: [mibs: number[], members: number],
    take: typeof step,
    mostSteps: number,
    expectWritten: (layout: FilesystemLayout, before: FilesystemLayout) => void,
  ): void => {
    const before = mounted(...mibs.map((mib) => `${mib}Mi`));
    const sizeBytes = filesystemSizeBytes(before) ?? 0;
    const target = mergeOf(before, members);
    let layout = before;
    for (let steps = 0; layout.spec.target?.decidedAt !== target.decidedAt; steps += 1) {
      expect(steps).toBeLessThan(mostSteps);
      layout = take(layout, target);
      expectWritten(layout, before);
      layout = carriedOut(layout);
      expect(filesystemSizeBytes(layout)).toBeGreaterThanOrEqual(sizeBytes);
    }
    expect(layout.spec.members).toHaveLength(Math.min(members, mibs.length));
    expect(filesystemSizeBytes(layout)).toBeLessThan(sizeBytes + GIB);
  };
  const wanted = fc.tuple(sizes, fc.integer({ min: 1, max: 3 }));
  const options = { runs: 100, reaches: { "something written": 0.4 } };

  property("where members can grow, in two steps, of which none asks for less", options, [wanted], (reach, merge) =>
    expectMerged(merge, step, 2, (layout, before) => {
      reach("something written");
      const askedBytes = parseQuantity(layout.spec.target?.size ?? "0");
      expect(askedBytes).toBeGreaterThanOrEqual(filesystemSizeBytes(before) ?? 0);
    }),
  );

  property("where they cannot, in three, with one new member", options, [wanted], (reach, merge) =>
    expectMerged(merge, replace, 3, (layout, before) => {
      reach("something written");
      expect(layout.spec.members?.length).toBeLessThanOrEqual((before.spec.members ?? []).length + 1);
    }),
  );
});

function leavingOne(layout: FilesystemLayout): FilesystemLayout {
  const members = (layout.spec.members ?? []).map((one) =>
    one.name === "m2" ? { ...one, state: "Removed" as const } : one,
  );
  return { ...layout, spec: { ...layout.spec, members } };
}

function running(layout: FilesystemLayout): FilesystemLayout {
  const operation = { kind: "Extend", from: "2Gi", to: "3Gi", epoch: 1, startedAt: DECIDED, step: "resize" } as const;
  return { ...layout, status: { ...layout.status, operation } };
}
