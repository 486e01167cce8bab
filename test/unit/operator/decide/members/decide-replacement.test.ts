import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { filesystemSizeBytes } from "../../../../../src/contracts/formulas/filesystem-size.ts";
import type { SizeTarget } from "../../../../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { formatQuantity, GIB, parseQuantity } from "../../../../../src/contracts/quantities/quantity.ts";
import { decideMembers, type MembersPlan } from "../../../../../src/operator/decide/members/decide-members.ts";
import {
  leftByStop,
  takenBack,
  withoutEndedMark,
} from "../../../../../src/operator/decide/members/decide-replacement.ts";
import type { Rounding } from "../../../../../src/operator/decide/members/member-growth.ts";
import { ratio } from "../../../../builders/any-facts.ts";
import { property } from "../../../../harness/property.ts";
import { carriedOut, holding, mounted, summary, unmounted, withLast, written } from "../../../../harness/span-steps.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const RULES = { className: "member-class", maxMembers: 4, spareMembers: 0, strategy: "Auto" as const };

function shrinkOf(layout: FilesystemLayout, size: string, decidedAt = DECIDED): SizeTarget {
  return { size, from: formatQuantity(filesystemSizeBytes(layout) ?? 0), epoch: 3, decidedAt };
}

const decide = (layout: FilesystemLayout, target: SizeTarget, maxMembers = 4): MembersPlan =>
  decideMembers(layout, target, { rules: { ...RULES, maxMembers }, mayGrow: false, growthFailed: false });

const SNAPSHOTS = "it has 3 snapshots";
const immovable = (layout: FilesystemLayout): FilesystemLayout => ({
  ...layout,
  status: { ...layout.status, immovable: SNAPSHOTS },
});

describe("a shrink that fits no whole member", () => {
  it("makes a smaller one, takes it in, and lets the large one leave, in this order", () => {
    let layout = mounted("4Gi", "4Gi");
    const target = shrinkOf(layout, "5500Mi");
    layout = written(layout, decide(layout, target));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Spare");
    expect(layout.spec.target).toBeUndefined();
    // Not before its node has it ready.
    expect(decide(layout, target)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
    layout = written(carriedOut(layout), decide(carriedOut(layout), target));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
    expect(layout.spec.target).toMatchObject({ size: "10Gi", from: "8Gi", decidedAt: "2029-12-31T23:59:59.999Z" });
    expect(decide(layout, target)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
    layout = written(carriedOut(layout), decide(carriedOut(layout), target));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Removed, m2 2Gi Present");
    expect(layout.spec.target).toEqual({ ...target, size: "6Gi", from: "10Gi" });
    layout = carriedOut(layout);
    expect(summary(layout)).toBe("m0 4Gi Present, m2 2Gi Present");
    const members = layout.spec.members?.map((member) => withoutEndedMark(layout, member));
    expect(members?.some(({ replaces }) => replaces !== undefined)).toBe(false);
  });

  it.each<[string, string[], string, number, string]>([
    ["replaces the only member, which is never removed", ["4Gi"], "2Gi", 4, "m0 4Gi Present, m1 2Gi Spare"],
    [
      "replaces the largest",
      ["2Gi", "8Gi", "3Gi"],
      "12Gi",
      4,
      "m0 2Gi Present, m1 8Gi Present, m2 3Gi Present, m3 7Gi Spare",
    ],
  ])("%s", (_what, sizes, size, maxMembers, expected) => {
    const layout = mounted(...sizes);
    expect(summary(written(layout, decide(layout, shrinkOf(layout, size), maxMembers)))).toBe(expected);
  });

  it.each<[string, FilesystemLayout, Partial<SizeTarget>, number]>([
    ["less than 1 GiB would be saved", mounted("4Gi", "4Gi"), { size: "7500Mi" }, 4],
    ["no place is left for one more", mounted("4Gi", "4Gi"), { size: "5Gi" }, 2],
    ["it was decided on another size", mounted("4Gi", "4Gi"), { size: "5Gi", from: "9Gi" }, 4],
    ["nothing is mounted", unmounted(mounted("4Gi", "4Gi")), { size: "5Gi" }, 4],
  ])("is held as before where %s", (_where, layout, change, maxMembers) => {
    const target = { ...shrinkOf(mounted("4Gi", "4Gi"), "5Gi"), ...change };
    expect(decide(layout, target, maxMembers)).toMatchObject({ do: "hold", reason: "ShrinkFloorReached" });
  });

  it("is held with the reason while its data cannot be moved, and makes nothing", () => {
    const layout = immovable(mounted("4Gi", "4Gi"));
    const plan = decide(layout, shrinkOf(layout, "5500Mi"));
    expect(plan).toMatchObject({ do: "hold", reason: "ShrinkFloorReached" });
    expect(plan).toMatchObject({ message: expect.stringContaining(`takes its place: ${SNAPSHOTS}`) });
    // The agent lets those leave that hold nothing.
    expect(summary(written(layout, decide(layout, shrinkOf(layout, "4Gi"))))).toBe("m0 4Gi Present, m1 4Gi Removed");
    const known = holding(immovable(mounted("4Gi", "1Gi", "2Gi")), "3Gi", "0", "1Gi");
    const after = written(known, decide(known, shrinkOf(known, "5Gi")));
    expect(summary(after)).toBe("m0 4Gi Present, m1 1Gi Removed, m2 2Gi Present");
  });

  it("counts to the quota with both members", () => {
    const layout = mounted("4Gi");
    const quota = { namespace: "shop", className: "member-class", name: "storage", limitBytes: 5 * GIB, takenBytes: 0 };
    const plan = decideMembers(layout, shrinkOf(layout, "2Gi"), {
      rules: RULES,
      mayGrow: false,
      growthFailed: false,
      quota,
    });
    expect(plan).toMatchObject({ do: "hold", reason: "QuotaExceeded", message: expect.stringContaining("6Gi") });
  });
});

describe("what comes between the steps of a replacement", () => {
  const begun = mounted("4Gi", "4Gi");
  const target = shrinkOf(begun, "5500Mi");
  const ordered = written(begun, decide(begun, target));
  const ready = carriedOut(ordered);
  const added = carriedOut(written(ready, decide(ready, target)));
  const later = "2030-01-01T00:01:00.000Z";

  it.each([
    ["on its way", ordered],
    ["ready", ready],
  ])("what is %s goes where data cannot be moved any more, and the shrink is held", (_what, layout) => {
    const dropped = written(immovable(layout), decide(immovable(layout), target));
    expect(summary(dropped)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed");
    expect(dropped.spec.target).toBeUndefined();
    expect(decide(dropped, target)).toMatchObject({ do: "hold", reason: "ShrinkFloorReached" });
    // Its node could not let go of it yet.
    const away = { ...immovable(layout), status: { ...layout.status, immovable: SNAPSHOTS, mounted: false } };
    expect(decide(away, target)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
  });

  it.each([
    ["is on its way", ordered],
    ["is ready", ready],
    ["is to be taken in, and its node has not begun that", written(ready, decide(ready, target))],
  ])("a stop lets go of what %s, and the size stays", (_what, layout) => {
    const stop = { ...target, size: "8Gi", from: "8Gi", decidedAt: later };
    const after = written(layout, decide(layout, stop));
    expect(summary(after)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed");
    expect(after.spec.target).toMatchObject({ size: "8Gi", from: "8Gi", decidedAt: later });
  });

  describe("a stop that finds the small one in the filesystem", () => {
    const stop = { ...target, size: "10Gi", from: "10Gi", decidedAt: later };
    const settledOf = (layout: FilesystemLayout): FilesystemLayout => ({
      ...layout,
      spec: { ...layout.spec, members: layout.spec.members?.map((one) => withoutEndedMark(layout, one)) ?? [] },
    });
    const stopped = written(added, decide(added, stop));
    const EMPTY = ["3Gi", "3Gi", "0"];

    it("lets it leave again where it holds nothing, by a shrink of its own, to the size of before", () => {
      const settled = settledOf(holding(stopped, ...EMPTY));
      expect(summary(settled)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
      const back = leftByStop(settled);
      expect(back).toEqual({ ...stop, size: "8Gi", from: "10Gi", decidedAt: "2030-01-01T00:01:00.001Z" });
      const leaving = written(settled, decide(settled, back as SizeTarget));
      expect(summary(leaving)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed");
      expect(leaving.spec.target).toEqual(back);
      expect(leftByStop(leaving)).toBeUndefined();
      // Should it find its floor, nothing is asked for again.
      expect(leftByStop(settledOf(carriedOut(leaving, "FloorReached")))).toBeUndefined();
      expect(filesystemSizeBytes(carriedOut(leaving))).toBe(8 * GIB);
    });

    it("waits for the operation that takes it in", () => {
      const taking = written(ready, decide(ready, target));
      const operation = {
        kind: "Extend",
        from: "8Gi",
        to: "10Gi",
        epoch: 3,
        startedAt: DECIDED,
        step: "extending",
      } as const;
      const running = { ...taking, status: { ...taking.status, operation } };
      const asked = settledOf(written(running, decide(running, { ...stop, size: "8Gi", from: "8Gi" })));
      expect(leftByStop(asked)).toBeUndefined();
      const ended = settledOf({ ...asked, status: holding(added, ...EMPTY).status ?? {} });
      expect(leftByStop(ended)).toMatchObject({ size: "8Gi", from: "10Gi" });
    });

    it.each<[string, FilesystemLayout]>([
      ["holds something", holding(stopped, "3Gi", "3Gi", "1Gi")],
      ["is not known to hold nothing", stopped],
    ])("keeps it, as one like any other, where it %s", (_where, layout) => {
      const settled = settledOf(layout);
      expect(leftByStop(settled)).toBeUndefined();
      expect(settled.spec.members?.[2]).not.toHaveProperty("replaces");
      // Nor does it leave once it is empty: nobody has asked for that.
      expect(leftByStop(holding(settled, ...EMPTY))).toBeUndefined();
    });

    it.each<[string, FilesystemLayout]>([
      ["is mounted nowhere", unmounted(holding(stopped, ...EMPTY))],
      [
        "is wanted larger by now",
        { ...holding(stopped, ...EMPTY), spec: { ...stopped.spec, target: { ...stop, size: "11Gi" } } },
      ],
    ])("keeps it while the filesystem %s", (_while, layout) => {
      expect(leftByStop(layout)).toBeUndefined();
    });
  });

  it("an extend uses what is ready, where it fits", () => {
    const plan = decide(ready, { ...target, size: "10Gi", decidedAt: later });
    expect(summary(written(ready, plan))).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
    expect(written(ready, plan).spec.members?.[2]).not.toHaveProperty("replaces");
  });

  it.each<[string, string]>([
    ["an extend lets go of what does not fit", "13Gi"],
    ["a target that is met lets go of it", "8Gi"],
  ])("%s", (_what, size) => {
    const after = written(ordered, decide(ordered, { ...target, size, decidedAt: later }));
    expect(after.spec.members?.[2]).toMatchObject({ name: "m2", state: "Removed" });
    expect(after.spec.members?.slice(0, 2).map(({ state }) => state)).toEqual(["Present", "Present"]);
  });

  it.each<[string, FilesystemLayout, number, string]>([
    ["is still being made", ordered, 4, "5500Mi"],
    ["is being made, and has the last place", ordered, 3, "5400Mi"],
    ["is ready", ready, 4, "5500Mi"],
  ])("a shrink that is decided anew goes on with the member that %s", (_what, layout, most, size) => {
    const anew = { ...target, size, decidedAt: later };
    const after = written(layout, decide(layout, anew, most));
    expect(summary(after)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Spare");
    expect(after.spec.members?.[2]?.replaces).toEqual({ member: "m1", decidedAt: later });
    const taken = written(carriedOut(after), decide(carriedOut(after), anew, most));
    expect(summary(taken)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
  });

  it("a shrink that is decided anew, and asks for another size of it, lets go of it", () => {
    const after = written(ordered, decide(ordered, { ...target, size: "6500Mi", decidedAt: later }));
    expect(summary(after)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed, m3 3Gi Spare");
  });

  it("a shrink that cannot be had either lets go of it", () => {
    const after = written(ordered, decide(ordered, { ...target, size: "7900Mi", decidedAt: later }));
    expect(after.spec.members?.[2]).toMatchObject({ name: "m2", state: "Removed" });
    expect(after.spec.target).toBeUndefined();
  });

  it("an emergency that took the small one in ends it: nothing leaves", () => {
    const last = { ...added.status?.lastOperation, decidedAt: undefined, emergency: true } as LastOperation;
    const surged = { ...added, status: { ...added.status, lastOperation: last } };
    expect(decide(surged, target)).toMatchObject({ do: "hold", message: expect.stringContaining("changed since") });
    // Nor once it is a member like any other.
    const startedAt = "2030-01-01T00:00:05.000Z";
    const after = { ...surged, status: { ...surged.status, lastOperation: { ...last, startedAt } } };
    const members = after.spec.members?.map((one) => withoutEndedMark(after, one)) ?? [];
    expect(members[2]).not.toHaveProperty("replaces");
    expect(decide({ ...after, spec: { ...after.spec, members } }, target)).toMatchObject({ do: "hold" });
  });

  it("a removal that is cancelled, or finds its floor, leaves all members in", () => {
    const leaving = written(added, decide(added, target));
    for (const outcome of ["Cancelled", "FloorReached"] as const)
      expect(summary(carriedOut(leaving, outcome))).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
  });

  it("what was made for a removal that finds its floor is taken out again, once, and the size is what it was", () => {
    let layout = carriedOut(written(added, decide(added, target)), "FloorReached");
    const back = takenBack(layout);
    expect(back).toEqual({ ...target, size: "8Gi", from: "10Gi", decidedAt: "2030-01-01T00:00:00.001Z" });
    layout = written(layout, decide(layout, back as SizeTarget));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed");
    expect(layout.spec.target).toEqual(back);
    expect(takenBack(layout)).toBeUndefined();
    for (const outcome of ["Succeeded", "FloorReached"] as const)
      expect(takenBack(carriedOut(layout, outcome))).toBeUndefined();
    expect(filesystemSizeBytes(carriedOut(layout))).toBe(8 * GIB);
  });

  const leavingOf = (outcome: LastOperation["outcome"]) => carriedOut(written(added, decide(added, target)), outcome);
  const inVain = leavingOf("FloorReached");

  it.each<[string, FilesystemLayout]>([
    ["was cancelled", leavingOf("Cancelled")],
    ["failed", leavingOf("Failed")],
    ["still runs", written(added, decide(added, target))],
    ["is not taken back in the layout yet", { ...inVain, spec: written(added, decide(added, target)).spec }],
    ["was followed by another operation", withLast(inVain, { decidedAt: later })],
    ["was of a filesystem that is not mounted any more", unmounted(inVain)],
    [
      "was followed by a newer target",
      { ...inVain, spec: { ...inVain.spec, target: { ...target, decidedAt: later } } },
    ],
  ])("nothing is taken out again where the removal %s", (_how, layout) => {
    expect(takenBack(layout)).toBeUndefined();
  });

  it("an extend while the large one leaves takes that back", () => {
    const leaving = written(added, decide(added, target));
    const after = written(leaving, decide(leaving, { ...target, size: "10Gi", decidedAt: later }));
    expect(summary(after)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
  });

  it("a member that its driver has made too small for the target is waited for", () => {
    expect(decide(carriedOut(ordered, "Succeeded", { m2: "1Gi" }), target)).toMatchObject({
      reason: "WaitingForMember",
      message: expect.stringContaining("it has 1Gi"),
    });
  });
});

describe("a smaller member that its driver makes larger than asked for", () => {
  const begun = mounted("4Gi", "4Gi");
  const target = shrinkOf(begun, "5500Mi");
  const ordered = written(begun, decide(begun, target));

  it("is taken in as it is where the large one's leaving still saves 1 GiB, and the shrink goes as far as that", () => {
    const devices = { m2: "3Gi" };
    let layout = carriedOut(ordered, "Succeeded", devices);
    layout = written(layout, decide(layout, target));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Present");
    expect(layout.spec.target).toMatchObject({ size: "11Gi", from: "8Gi" });
    layout = carriedOut(layout, "Succeeded", devices);
    const added = layout;
    layout = written(layout, decide(layout, target));
    expect(summary(layout)).toBe("m0 4Gi Present, m1 4Gi Removed, m2 2Gi Present");
    expect(layout.spec.target).toEqual({ ...target, size: "7Gi", from: "11Gi" });
    expect(filesystemSizeBytes(carriedOut(layout, "Succeeded", devices))).toBe(7 * GIB);
    // Where the large one cannot leave it goes with all that it has.
    const inVain = carriedOut(written(added, decide(added, target)), "FloorReached", devices);
    expect(takenBack(inVain)).toMatchObject({ size: "8Gi", from: "11Gi" });
  });

  describe("so large that nothing is saved", () => {
    const large = carriedOut(ordered, "Succeeded", { m2: "3200Mi" });
    const plan = decide(large, target);
    const rounding = { askedBytes: 2 * GIB, gotBytes: 3200 * 1024 ** 2 };
    const decideWith = (layout: FilesystemLayout, wanted: SizeTarget): MembersPlan =>
      decideMembers(layout, wanted, { rules: RULES, mayGrow: false, growthFailed: false, roundings: [rounding] });

    it("is let go of, and that is remembered", () => {
      expect(summary(written(large, plan))).toBe("m0 4Gi Present, m1 4Gi Present, m2 2Gi Removed");
      expect(plan).not.toHaveProperty("target");
      expect(plan).toMatchObject({ rounding });
    });

    it("is not while the node could not let go of it", () => {
      expect(decide(unmounted(large), target)).toMatchObject({ do: "hold", reason: "WaitingForMember" });
    });

    it("is not ordered again as long as that is remembered, and the hold says so", () => {
      for (const layout of [begun, written(large, plan)])
        expect(decideWith(layout, target)).toMatchObject({
          do: "hold",
          reason: "ShrinkFloorReached",
          message: expect.stringContaining("class member-class has lately made members of 3.13Gi or more where 2Gi"),
        });
    });

    it.each<[string, FilesystemLayout, string, string]>([
      ["one of less, which may be small enough", begun, "4500Mi", "m2 1Gi Spare"],
      ["one for a member that is large enough", mounted("8Gi", "8Gi"), "10500Mi", "m2 3Gi Spare"],
    ])("does not keep from ordering %s", (_what, layout, size, expected) => {
      expect(summary(written(layout, decideWith(layout, shrinkOf(layout, size))))).toContain(expected);
    });
  });
});

property(
  "however its driver rounds up: a shrink never goes under its target, nothing is ordered twice in vain, and none ends larger",
  { runs: 200, reaches: { "a shrink to its end": 0.1, "a member that is too large": 0.03 } },
  [
    fc.array(fc.integer({ min: 1, max: 32 }), { minLength: 1, maxLength: 3 }),
    ratio(0, 0.999),
    fc.integer({ min: 1, max: 24 }),
  ],
  (reach, gibs, leftRatio, stepGib) => {
    let layout = mounted(...gibs.map((gib) => `${gib}Gi`));
    const before = filesystemSizeBytes(layout) ?? 0;
    const wantedBytes = Math.max(256, Math.floor((leftRatio * before) / 1024 ** 2)) * 1024 ** 2;
    const target = shrinkOf(layout, formatQuantity(wantedBytes));
    const devices: Record<string, string> = {};
    const roundings: Rounding[] = [];
    let ordered = 0;
    for (let step = 0; step < 8 && layout.spec.target?.decidedAt !== target.decidedAt; step += 1) {
      const plan = decideMembers(layout, target, { rules: RULES, mayGrow: false, growthFailed: false, roundings });
      if (plan.do === "hold") {
        expect(plan.reason).toBe("ShrinkFloorReached");
        expect(summary(layout)).toBe(summary(mounted(...gibs.map((gib) => `${gib}Gi`))));
        break;
      }
      const [made] = plan.members.slice(layout.spec.members?.length);
      if (made !== undefined) {
        ordered += 1;
        devices[made.name] = formatQuantity(
          Math.ceil(parseQuantity(made.size ?? "0") / (stepGib * GIB)) * stepGib * GIB,
        );
      }
      if (plan.rounding !== undefined) {
        reach("a member that is too large");
        roundings.push(plan.rounding);
      }
      layout = carriedOut(written(layout, plan), "Succeeded", devices);
      expect(filesystemSizeBytes(layout)).toBeGreaterThanOrEqual(wantedBytes);
    }
    expect(ordered).toBeLessThanOrEqual(1);
    if (layout.spec.target?.decidedAt !== target.decidedAt) return;
    reach("a shrink to its end");
    expect(before - (filesystemSizeBytes(layout) ?? 0)).toBeGreaterThanOrEqual(GIB);
  },
);

property(
  "whatever the sizes: a shrink never goes under its target, frees at least 1 GiB, and names no member twice",
  { runs: 200, reaches: { "a shrink to its end": 0.2, "one that is held": 0.05 } },
  [
    fc.array(fc.integer({ min: 1, max: 64 }), { minLength: 1, maxLength: 4 }),
    ratio(0, 0.999),
    fc.integer({ min: 1, max: 4 }),
  ],
  (reach, gibs, leftRatio, most) => {
    let layout = mounted(...gibs.map((gib) => `${gib}Gi`));
    const before = filesystemSizeBytes(layout) ?? 0;
    const mib = Math.max(256, Math.floor((leftRatio * before) / 1024 ** 2));
    const target = shrinkOf(layout, `${mib}Mi`);
    const wantedBytes = mib * 1024 * 1024;
    const names = new Set<string>(layout.spec.members?.map(({ name }) => name));
    for (let step = 0; step < 6 && layout.spec.target?.decidedAt !== target.decidedAt; step += 1) {
      const plan = decide(layout, target, Math.max(most, gibs.length));
      if (plan.do === "hold") {
        reach("one that is held");
        expect(summary(layout)).toBe(summary(mounted(...gibs.map((gib) => `${gib}Gi`))));
        return;
      }
      for (const { name } of plan.members.slice(layout.spec.members?.length)) {
        expect(names).not.toContain(name);
        names.add(name);
      }
      expect(new Set(plan.members.map(({ name }) => name)).size).toBe(plan.members.length);
      expect(plan.members.length).toBeLessThanOrEqual(Math.max(most, gibs.length));
      layout = carriedOut(written(layout, plan));
      expect(filesystemSizeBytes(layout)).toBeGreaterThanOrEqual(wantedBytes);
    }
    reach("a shrink to its end");
    expect(layout.spec.target?.decidedAt).toBe(target.decidedAt);
    expect(before - (filesystemSizeBytes(layout) ?? 0)).toBeGreaterThanOrEqual(GIB);
  },
);
