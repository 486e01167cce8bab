import { describe, expect, it } from "@jest/globals";
import type {
  FilesystemLayout,
  LastOperation,
  MemberSpec,
} from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import {
  GROWTH_ASKED_ANNOTATION,
  GROWTH_FAILED_ANNOTATION,
  GROWTH_SETTLED_ANNOTATION,
  GROWTH_WORKED_ANNOTATION,
  RECORDS,
} from "../../../../../src/contracts/names.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { fieldsAfterVainGrowth, targetFields } from "../../../../../src/operator/decide/decide-layout-write.ts";
import { decideTarget } from "../../../../../src/operator/decide/decide-target.ts";
import type { MemberClassFacts } from "../../../../../src/operator/decide/members/decide-members.ts";
import { memberBytesOf } from "../../../../../src/operator/decide/members/member-bytes.ts";
import {
  classFailure,
  GROWTH_MEMORY_MS,
  GROWTH_PAUSE_MS,
  growsAgainAtMs,
  growthNews,
  growthTime,
  vainGrowth,
} from "../../../../../src/operator/decide/members/member-growth.ts";
import type { Strategy } from "../../../../../src/operator/decide/members/member-rules.ts";
import { changedLayout } from "../../../../../src/operator/volumes/layout-fields.ts";
import { buildSpan } from "../../../../builders/span.ts";
import { storedObject } from "../../../../builders/stored-object.ts";
import { buildFilesystem } from "../../../../builders/volume.ts";

const DECIDED = "2030-01-01T00:00:00.000Z";
const ENDED = "2030-01-01T00:01:01.000Z";
const NOW = "2030-01-01T00:02:00.000Z";
const NOW_MS = Date.parse(NOW);
const DAY_MS = 86_400_000;
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

/** Its node decides it, and no target's date stands with it. */
const EMERGENCY = { emergency: true, startedAt: ENDED, decidedAt: undefined };

function withAnnotation(layout: FilesystemLayout, key: string, value: string): FilesystemLayout {
  const annotations = { ...layout.metadata.annotations, [key]: value };
  return { ...layout, metadata: { ...layout.metadata, annotations } };
}

/** What the operator writes, as the layout that stands afterwards. */
function written(layout: FilesystemLayout, decided: ReturnType<typeof targetFields>): FilesystemLayout {
  if (!("fields" in decided)) throw new Error(decided.refusal.message);
  const { metadata, spec } = storedObject<FilesystemLayout>(changedLayout(layout, decided.fields));
  return { ...layout, spec, metadata: { ...layout.metadata, ...metadata } };
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

const after = (ms: number): string => new Date(NOW_MS + ms).toISOString();
const sizes = (members: readonly MemberSpec[] | undefined): string =>
  (members ?? []).map(({ name, size }) => `${name} ${size}`).join(", ");

describe("a growth in vain", () => {
  it("is one whose volume has the size asked for, and whose device had not when the extend gave up", () => {
    expect(sizes(vainGrowth(inVain())?.members)).toBe("m0 1Gi");
  });

  it("is one of an emergency, too", () => {
    expect(sizes(vainGrowth(inVain(EMERGENCY))?.members)).toBe("m0 1Gi");
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
  ])("is not %s", (_what, layout) => {
    expect(vainGrowth(layout)).toBeUndefined();
  });

  it("is not one that is settled, when the same target grows the member once more", () => {
    const settled = withAnnotation(inVain(EMERGENCY), GROWTH_SETTLED_ANNOTATION, ENDED);
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
    const fields = fieldsAfterVainGrowth(layout, facts(), NOW_MS);
    expect(sizes(fields?.members)).toBe("m0 1Gi, m1 1Gi");
    expect(fields).toMatchObject({
      growth: { failedAt: NOW, settled: ENDED },
      target: { ...TARGET, decidedAt: "2030-01-01T00:00:00.001Z" },
    });
  });

  it("a new wish counts what the device has, and is met by a member", () => {
    const wanted = { ...TARGET, size: "3Gi", decidedAt: ENDED };
    const decided = targetFields(inVain(), wanted, facts(), NOW_MS);
    if (!("fields" in decided)) throw new Error(decided.refusal.message);
    expect(sizes(decided.fields.members)).toBe("m0 1Gi, m1 2Gi");
    expect(decided.fields).toMatchObject({ growth: { failedAt: NOW, settled: ENDED }, target: wanted });
  });

  it.each<[string, MemberClassFacts]>([
    ["maxMembers is reached", facts("Auto", 1)],
    ["the strategy adds none", facts("GrowMember")],
  ])("growing waits for the policy-engine where %s", (_what, ofClass) => {
    const fields = fieldsAfterVainGrowth(inVain(), ofClass, NOW_MS);
    expect(sizes(fields?.members)).toBe("m0 1Gi");
    expect(fields?.growth).toEqual({ failedAt: NOW, settled: ENDED });
    expect(fields?.target).toBeUndefined();
  });

  it("growing is tried again there, for the next wish", () => {
    const decided = targetFields(inVain(), { ...TARGET, decidedAt: ENDED }, facts("Auto", 1, true), NOW_MS);
    expect("fields" in decided && sizes(decided.fields.members)).toBe("m0 2Gi");
  });

  it.each([-DAY_MS, DAY_MS])(
    "the memory counts by the operator's clock, with a node's that is %i ms ahead",
    (aheadMs) => {
      const ofNode = (text: string): string => new Date(Date.parse(text) + aheadMs).toISOString();
      const layout = inVain({ ...EMERGENCY, startedAt: ofNode(ENDED), endedAt: ofNode(ENDED) });
      const settled = written(layout, targetFields(layout, { ...TARGET, decidedAt: ENDED }, facts(), NOW_MS));
      expect(classFailure([settled], "member-class", NOW_MS)?.untilMs).toBe(NOW_MS + GROWTH_MEMORY_MS);
      expect(classFailure([settled], "member-class", NOW_MS + GROWTH_MEMORY_MS)).toBeUndefined();
    },
  );

  it("an emergency that ended before a growth was asked for says nothing of that one", () => {
    const before = inVain({ ...EMERGENCY, startedAt: "2029-01-01T00:00:00.000Z" });
    const atRest = { ...before, spec: { ...before.spec, members: vainGrowth(before)?.members ?? [] } };
    const asked = written(atRest, targetFields(atRest, { ...TARGET, decidedAt: ENDED }, facts(), NOW_MS));
    expect([sizes(asked.spec.members), vainGrowth(asked)]).toEqual(["m0 2Gi", undefined]);
  });

  it("an emergency that ran when a growth was asked for says nothing of that one, which it never tried", () => {
    // It waits for m1, and fails for that: m0 was at rest when it began.
    const operation = { ...FAILED, ...EMERGENCY, step: "extending" };
    const { outcome: _, reached: __, endedAt: ___, ...running } = operation;
    const sizes2 = buildSpan({ sizes: ["1Gi", "2Gi"], reported: { m1: { size: "1Gi" } } });
    const members = sizes2.spec.members?.map((member) => withCapacity(member, "2Gi"));
    const atRest = { ...sizes2, spec: { ...sizes2.spec, ...(members && { members }) } };
    const runs = { ...atRest, status: { ...atRest.status, operation: running } };
    const asked = written(runs, targetFields(runs, { ...TARGET, size: "4Gi", from: "2Gi" }, facts("Auto", 2), NOW_MS));
    expect(sizes(asked.spec.members)).toBe("m0 2Gi, m1 2Gi");
    const ended = (startedAt: string): FilesystemLayout => ({
      ...asked,
      status: { ...atRest.status, lastOperation: { ...FAILED, ...EMERGENCY, startedAt, endedAt: NOW } },
    });
    expect(vainGrowth(ended(ENDED))).toBeUndefined();
    expect(sizes(vainGrowth(ended(after(1)))?.members)).toBe("m0 1Gi, m1 1Gi");
  });

  it("is remembered also where the next wish is not to be had", () => {
    const decided = targetFields(inVain(), { ...TARGET, size: "3Gi", decidedAt: ENDED }, facts("AddMember", 1), NOW_MS);
    expect(decided).toMatchObject({ refusal: { reason: "MemberLimitReached" } });
    const settled = "settled" in decided ? decided.settled : undefined;
    expect([sizes(settled?.members), settled?.growth]).toEqual(["m0 1Gi", { failedAt: NOW, settled: ENDED }]);
  });

  it("a deposed leader's wish is not carried on", () => {
    const layout = inVain();
    const fields = fieldsAfterVainGrowth({ ...layout, status: { ...layout.status, epoch: 4 } }, facts(), NOW_MS);
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
    const decided = targetFields(
      { ...layout, spec: { ...layout.spec, members } },
      wanted,
      facts("Auto", 2, true),
      NOW_MS,
    );
    expect("fields" in decided && sizes(decided.fields.members)).toBe("m0 2Gi, m1 1Gi");
  });
});

describe("a class that has failed to grow a member", () => {
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

  it("is tried again by a merge that has no other way, the later the more often that was in vain, within its memory", () => {
    let layout = failed(0);
    const pauses: number[] = [];
    for (let count = 1; count <= 7; count += 1) {
      const failure = classFailure([layout, failed(-1000)], "member-class", NOW_MS);
      if (failure === undefined) throw new Error("forgotten");
      expect(failure.failures).toBe(count);
      pauses.push(growsAgainAtMs(failure) - failure.failedAtMs);
      const again = { ...inVain(), metadata: layout.metadata };
      const ofClass = { ...facts("Auto", 1, true), growthFailures: failure.failures };
      const fields = fieldsAfterVainGrowth(again, ofClass, NOW_MS);
      layout = withAnnotation(layout, GROWTH_FAILED_ANNOTATION, fields?.growth?.failedAt ?? "");
    }
    const minutes = [2, 4, 8, 16, 32, 60, 60];
    expect(pauses).toEqual(minutes.map((count) => (count * GROWTH_PAUSE_MS) / 2));
  });

  it.each<[string, FilesystemLayout[], boolean]>([
    ["failure of a replica whose clock is a little ahead counts", [failed(60_000)], true],
    ["failure of one whose clock is a day ahead does not", [failed(DAY_MS)], false],
    ["failure counts although one worked by a clock that is a day ahead", [failed(-1000), worked(DAY_MS)], true],
  ])("the %s", (_what, layouts, holds) => {
    const failure = classFailure(layouts, "member-class", NOW_MS);
    expect(failure !== undefined).toBe(holds);
    expect(failure?.untilMs ?? 0).toBeLessThanOrEqual(NOW_MS + GROWTH_MEMORY_MS);
  });
});

const carriedOut = (layout: FilesystemLayout): FilesystemLayout => ({
  ...layout,
  status: {
    ...layout.status,
    members: (layout.spec.members ?? []).map(({ name, size = "0" }) => ({ name, size, state: "Present" as const })),
  },
});

describe("a growth that works although the class has failed to grow a member", () => {
  const failure = { className: "member-class", failedAtMs: NOW_MS, untilMs: NOW_MS + GROWTH_MEMORY_MS };
  const wanted = { ...TARGET, decidedAt: ENDED };
  const atRest = buildSpan({ sizes: ["1Gi"], reported: { m0: { size: "1Gi" } } });
  const asked = written(atRest, targetFields(atRest, wanted, facts("Auto", 1, true), NOW_MS + 1));

  it("is news once the device has followed, and once only", () => {
    expect(growthNews(asked, failure, NOW_MS + 2)).toBeUndefined();
    expect(growthNews(carriedOut(asked), failure, NOW_MS + 2)).toEqual({ workedAt: after(2) });
    const said = withAnnotation(carriedOut(asked), GROWTH_WORKED_ANNOTATION, new Date(NOW_MS + 2).toISOString());
    expect(growthNews(said, failure, NOW_MS + 3)).toBeUndefined();
    expect(classFailure([said], "member-class", NOW_MS + 3)).toBeUndefined();
  });

  it("is no news of a failure that came after it", () => {
    expect(growthNews(carriedOut(asked), { ...failure, failedAtMs: NOW_MS + 2 }, NOW_MS + 3)).toBeUndefined();
  });

  it("is not what only added a member", () => {
    const added = written(atRest, targetFields(atRest, wanted, facts("Auto", 4, true), NOW_MS + 1));
    expect(sizes(added.spec.members)).toBe("m0 1Gi, m1 1Gi");
    expect(growthNews(carriedOut(added), failure, NOW_MS + 2)).toBeUndefined();
  });

  it("is noted in the write that asks for it, and where no class has failed not at all", () => {
    const healthy = written(atRest, targetFields(atRest, wanted, facts("Auto", 1), NOW_MS));
    expect(sizes(healthy.spec.members)).toBe("m0 2Gi");
    expect(healthy.metadata.annotations?.[GROWTH_ASKED_ANNOTATION]).toBeUndefined();
  });

  it("is the second attempt of a volume whose first was in vain", () => {
    const again = written(inVain(), targetFields(inVain(), wanted, facts("Auto", 1), NOW_MS));
    expect(again.metadata.annotations?.[GROWTH_FAILED_ANNOTATION]).toBe(NOW);
    expect(growthNews(again, failure, NOW_MS)).toBeUndefined();
    expect(growthNews(carriedOut(again), failure, NOW_MS)).toEqual({ workedAt: NOW });
  });
});

describe("a replica that takes over from one whose clock is ahead", () => {
  const AHEAD_MS = 120_000;
  const wanted = { ...TARGET, decidedAt: ENDED };

  it("says once that a growth has worked, and the class is tried again", () => {
    // The other one found the failure, and asked for another growth.
    const asked = carriedOut(written(inVain(), targetFields(inVain(), wanted, facts("Auto", 1), NOW_MS + AHEAD_MS)));
    const failure = classFailure([asked], "member-class", NOW_MS);
    if (failure === undefined) throw new Error("no failure");
    const news = growthNews(asked, failure, NOW_MS);
    expect(news).toEqual({ workedAt: after(AHEAD_MS) });
    const said = withAnnotation(asked, GROWTH_WORKED_ANNOTATION, news?.workedAt ?? "");
    expect(growthNews(said, failure, NOW_MS + 1)).toBeUndefined();
    expect(classFailure([said], "member-class", NOW_MS + 1)).toBeUndefined();
  });

  it("writes nothing of a growth that was asked for by a clock that is a day ahead", () => {
    const asked = carriedOut(written(inVain(), targetFields(inVain(), wanted, facts("Auto", 1), NOW_MS + DAY_MS)));
    const failure = { className: "member-class", failedAtMs: NOW_MS - 1, untilMs: NOW_MS + GROWTH_MEMORY_MS };
    expect(growthNews(asked, failure, NOW_MS)).toBeUndefined();
  });

  it.each<[string, string, string]>([
    ["one has worked", GROWTH_WORKED_ANNOTATION, after(AHEAD_MS)],
    ["one was asked for", GROWTH_ASKED_ANNOTATION, `${after(AHEAD_MS)} m0 2Gi`],
    ["one has failed", GROWTH_FAILED_ANNOTATION, after(AHEAD_MS)],
  ])("remembers a failure, where the other one has said that %s before", (_what, annotation, text) => {
    const other = withAnnotation(buildSpan({ sizes: ["1Gi"] }), annotation, text);
    const atMs = growthTime([other, inVain()], "member-class", NOW_MS);
    expect(atMs).toBe(NOW_MS + AHEAD_MS + 1);
    const failed = written(inVain(), targetFields(inVain(), wanted, facts("Auto", 1), atMs));
    expect(classFailure([other, failed], "member-class", NOW_MS)).toMatchObject({ failedAtMs: atMs });
    // What it asks for comes after what was asked for before.
    expect(failed.metadata.annotations?.[GROWTH_ASKED_ANNOTATION]).toContain(new Date(atMs).toISOString());
  });

  it("dates by its own clock what is remembered of no class, of another one, or by a clock that is a day ahead", () => {
    const mad = withAnnotation(buildSpan({ sizes: ["1Gi"] }), GROWTH_WORKED_ANNOTATION, after(DAY_MS));
    const ahead = withAnnotation(buildSpan({ sizes: ["1Gi"] }), GROWTH_WORKED_ANNOTATION, after(AHEAD_MS));
    expect(growthTime([mad, inVain()], "member-class", NOW_MS)).toBe(NOW_MS);
    expect(growthTime([ahead], "other", NOW_MS)).toBe(NOW_MS);
  });
});
