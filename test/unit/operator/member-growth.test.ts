import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayout, LastOperation, MemberSpec } from "../../../src/api/filesystem-layout.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION, RECORDS } from "../../../src/api/names.ts";
import type { MemberClassFacts } from "../../../src/operator/member/decide-members.ts";
import { classFailure, GROWTH_MEMORY_MS, vainGrowth } from "../../../src/operator/member/member-growth.ts";
import type { Strategy } from "../../../src/operator/member/member-rules.ts";
import { memberBytesOf } from "../../../src/operator/member/member-shares.ts";
import { decideTarget } from "../../../src/operator/volume/decide-target.ts";
import { fieldsAfterVainGrowth, targetFields } from "../../../src/operator/volume/target-fields.ts";
import { GIB } from "../../../src/units/quantity.ts";
import { buildSpan } from "../../builders/span.ts";
import { buildFilesystem } from "../../builders/volume.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const ENDED = "2030-01-01T00:01:01.000Z";
const NOW_MS = Date.parse("2030-01-01T00:02:00.000Z");
const TARGET = { size: "2Gi", from: "1Gi", epoch: 3, decidedAt: DECIDED };

const FAILED: LastOperation = {
  kind: "Extend",
  from: "1Gi",
  to: "2Gi",
  epoch: 3,
  decidedAt: DECIDED,
  startedAt: DECIDED,
  outcome: "Failed",
  reason: "WaitingForMember",
  message: "WaitingForMember: member m0 has 1Gi instead of 2Gi",
  reached: "1Gi",
  endedAt: ENDED,
};

function withCapacity(member: MemberSpec, capacity: string): MemberSpec {
  const { claim } = member.source;
  return claim === undefined ? member : { ...member, source: { claim: { ...claim, capacity } } };
}

/** m0 was asked to have 2Gi, its volume has that, and its device does not. */
function inVain(last: Partial<LastOperation> = {}, capacity = "2Gi"): FilesystemLayout {
  const layout = buildSpan({ sizes: ["2Gi"], reported: { m0: { size: "1Gi" } } });
  const members = layout.spec.members?.map((member) => withCapacity(member, capacity));
  return {
    ...layout,
    spec: { ...layout.spec, target: TARGET, ...(members === undefined ? {} : { members }) },
    status: { ...layout.status, lastOperation: { ...FAILED, ...last } },
  };
}

function facts(strategy: Strategy = "Auto", maxMembers = 4, growthFailed = false): MemberClassFacts {
  return { rules: { className: "member-class", maxMembers, spareMembers: 0, strategy }, mayGrow: true, growthFailed };
}

const sizes = (members: readonly MemberSpec[] | undefined): string =>
  (members ?? []).map(({ name, size }) => `${name} ${size}`).join(", ");

describe("a growth in vain", () => {
  it("is one whose volume has the size asked for, and whose device had not when the extend gave up", () => {
    const vain = vainGrowth(inVain());
    expect([vain?.failedAt, sizes(vain?.members)]).toEqual([ENDED, "m0 1Gi"]);
  });

  it("is one of an emergency, too", () => {
    const emergency = { emergency: true, startedAt: ENDED };
    expect(vainGrowth(inVain({ ...emergency, decidedAt: DECIDED }))?.failedAt).toBe(ENDED);
  });

  it("that got a part has that part", () => {
    const layout = inVain();
    const status = { ...layout.status, members: [{ name: "m0", size: "1536Mi", state: "Present" as const }] };
    expect(sizes(vainGrowth({ ...layout, status })?.members)).toBe("m0 1536Mi");
  });

  it.each<[string, FilesystemLayout]>([
    ["an extend that succeeded", inVain({ outcome: "Succeeded" })],
    ["one that failed for another reason, or gave way to an emergency", inVain({ reason: "ReadOnly" })],
    ["one whose claim is still being expanded", inVain({}, "1Gi")],
    ["one of an earlier target", inVain({ decidedAt: "2029-01-01T00:00:00.000Z" })],
    ["an emergency from before the target", inVain({ emergency: true, startedAt: "2029-01-01T00:00:00.000Z" })],
  ])("is not %s", (_what, layout) => {
    expect(vainGrowth(layout)).toBeUndefined();
  });

  it("is not one that is settled, when the same target grows the member once more", () => {
    const layout = inVain({ emergency: true, startedAt: ENDED });
    const annotations = { ...layout.metadata.annotations, [GROWTH_FAILED_ANNOTATION]: ENDED };
    const settled = { ...layout, metadata: { ...layout.metadata, annotations } };
    expect(vainGrowth(settled)).toBeUndefined();
    expect(decideTarget(settled, buildFilesystem({ target: TARGET }))).toEqual({ do: "keep" });
  });

  it("is not what runs", () => {
    const layout = inVain();
    const operation = { kind: "Extend" as const, from: "1Gi", to: "2Gi", epoch: 3, startedAt: DECIDED, step: "" };
    expect(vainGrowth({ ...layout, status: { ...layout.status, operation } })).toBeUndefined();
  });
});

describe("after a growth in vain", () => {
  it("the same wish is met by a member, at once and by itself", () => {
    const layout = inVain();
    expect(decideTarget(layout, buildFilesystem({ target: TARGET }))).toEqual({ do: "settle-growth" });
    const fields = fieldsAfterVainGrowth(layout, facts());
    expect(sizes(fields?.members)).toBe("m0 1Gi, m1 1Gi");
    expect(fields).toMatchObject({
      growthFailedAt: ENDED,
      target: { ...TARGET, decidedAt: "2030-01-01T00:00:00.001Z" },
    });
  });

  it("a new wish counts what the device has, and is met by a member", () => {
    const wanted = { ...TARGET, size: "3Gi", decidedAt: ENDED };
    const decided = targetFields(inVain(), wanted, facts());
    if (!("fields" in decided)) throw new Error(decided.refusal.message);
    expect(sizes(decided.fields.members)).toBe("m0 1Gi, m1 2Gi");
    expect(decided.fields).toMatchObject({ growthFailedAt: ENDED, target: wanted });
  });

  it.each<[string, MemberClassFacts]>([
    ["maxMembers is reached", facts("Auto", 1)],
    ["the strategy adds none", facts("GrowMember")],
  ])("growing waits for the policy-engine where %s", (_what, ofClass) => {
    const fields = fieldsAfterVainGrowth(inVain(), ofClass);
    expect(sizes(fields?.members)).toBe("m0 1Gi");
    expect(fields?.growthFailedAt).toBe(ENDED);
    expect(fields?.target).toBeUndefined();
  });

  it("growing is tried again there, for the next wish", () => {
    const decided = targetFields(inVain(), { ...TARGET, decidedAt: ENDED }, facts("Auto", 1, true));
    expect("fields" in decided && sizes(decided.fields.members)).toBe("m0 2Gi");
  });

  it("a deposed leader's wish is not carried on", () => {
    const layout = inVain();
    const fields = fieldsAfterVainGrowth({ ...layout, status: { ...layout.status, epoch: 4 } }, facts());
    expect([sizes(fields?.members), fields?.target]).toEqual(["m0 1Gi", undefined]);
  });

  it("what the driver says that it has given is paid for still", () => {
    const layout = inVain();
    const members = vainGrowth(layout)?.members ?? [];
    expect(memberBytesOf({ ...layout, spec: { ...layout.spec, members } })).toBe(2 * GIB);
  });

  it("the member that is paid for grows before any other", () => {
    const layout = buildSpan({ sizes: ["1Gi", "1Gi"] });
    const [first, ...others] = layout.spec.members ?? [];
    if (first === undefined) throw new Error("no member");
    const members = [withCapacity(first, "2Gi"), ...others];
    const wanted = { ...TARGET, size: "3Gi", from: "2Gi" };
    const decided = targetFields({ ...layout, spec: { ...layout.spec, members } }, wanted, facts("Auto", 2, true));
    expect("fields" in decided && sizes(decided.fields.members)).toBe("m0 2Gi, m1 1Gi");
  });
});

describe("a class that has failed to grow a member", () => {
  const after = (ms: number): string => new Date(NOW_MS + ms).toISOString();
  const marked = (annotations: Record<string, string>, className = "member-class"): FilesystemLayout => {
    const layout = buildSpan({ sizes: ["1Gi"] });
    const records = { ...layout.metadata.annotations, [RECORDS.memberClass]: className };
    return { ...layout, metadata: { ...layout.metadata, annotations: { ...records, ...annotations } } };
  };
  const failed = (ms: number, className?: string) => marked({ [GROWTH_FAILED_ANNOTATION]: after(ms) }, className);
  const worked = (ms: number) => marked({ [GROWTH_WORKED_ANNOTATION]: after(ms) });

  it.each<[string, boolean, FilesystemLayout[]]>([
    ["is remembered by any of its volumes", true, [marked({}), failed(-1000), marked({})]],
    ["is remembered no longer than that", false, [failed(-GROWTH_MEMORY_MS)]],
    ["is remembered until then", true, [failed(1 - GROWTH_MEMORY_MS)]],
    ["is another class", false, [failed(-1000, "other")]],
    ["grew one of another volume since", false, [failed(-2000), worked(-1000)]],
    ["has failed again since one worked", true, [worked(-2000), failed(-1000)]],
    ["has never done so", false, [marked({})]],
    ["says so with what is no time", false, [marked({ [GROWTH_FAILED_ANNOTATION]: "soon" })]],
  ])("%s", (_what, holds, layouts) => {
    expect(classFailure(layouts, "member-class", NOW_MS) !== undefined).toBe(holds);
  });

  it("by a clock that is ahead is remembered for no longer either", () => {
    const untilMs = classFailure([failed(GROWTH_MEMORY_MS)], "member-class", NOW_MS)?.untilMs;
    expect(untilMs).toBe(NOW_MS + GROWTH_MEMORY_MS);
  });
});
