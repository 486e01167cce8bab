import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { readApproval } from "../../../../src/policy-engine/policies/approvals.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { approvalStatus, createApprovalReports } from "../../../../src/policy-engine/report/approval-reports.ts";
import { createApprovalUses } from "../../../../src/policy-engine/report/approval-uses.ts";
import { anApproval } from "../../../builders/approval.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { servedClient } from "../../../fakes/served-client.ts";

const POLICY = aPolicy({ mode: { extend: "Approve", shrink: "Approve" } });

/** The status of this approval, once its volume was decided with these in force. */
function statusAfter(object = anApproval("ok"), inForce = [object], usedRatio = 0.9, nowMs = NOW_MS) {
  const approvals = inForce.flatMap((one) => readApproval(one) ?? []);
  const facts = aVolume({ usedRatio, facts: { approvals } });
  const uses = createApprovalUses();
  const plan = decide(facts, POLICY, NO_CEILINGS);
  uses.noted("h", facts.claim, plan);
  if (plan.kind !== "hold") uses.written(facts.claim, plan);
  const entry = { object, approval: readApproval(object), isIgnored: false };
  return approvalStatus(entry, uses, uses.waiting(), nowMs);
}
const said = (status: ReturnType<typeof statusAfter>) =>
  (status.conditions ?? []).map(({ type, status: holds, reason }) => [type, holds, reason].join(" "));

describe("the status of an approval", () => {
  it("says that it is in use once a change was made by it, and goes on to say so", () => {
    const status = statusAfter();
    expect(said(status)).toEqual(["InUse True InUse"]);
    expect(status.conditions?.[0]?.message).toBe("it has approved an extend of claim data-0 to 15Gi");
    const later = { ...anApproval("ok"), status };
    expect(statusAfter(later, [later], 0.5)).toEqual(status);
  });

  it("begins anew with another wording", () => {
    const edited = { ...anApproval("ok", { notAbove: "30Gi" }, 2), status: statusAfter() };
    expect(said(statusAfter(edited, [edited], 0.5))).toEqual(["InUse False Unused"]);
  });

  it("says that no plan has needed it", () => {
    expect(said(statusAfter(undefined, undefined, 0.5))).toEqual(["InUse False Unused"]);
  });

  it("says by how much it is too narrow for a plan that waits", () => {
    const status = statusAfter(anApproval("ok", { notAbove: "12Gi" }));
    expect(said(status)).toEqual(["InUse False Unused", "TooNarrow True TooNarrow"]);
    expect(status.conditions?.[1]?.message).toBe(
      "set notAbove: 15Gi: an extend of claim data-0 to 15Gi waits, which it does not cover",
    );
  });

  it.each([
    ["of another direction", anApproval("ok", { action: "Shrink", notAbove: undefined, notBelow: "50Gi" })],
    ["of another claim", anApproval("ok", { claims: ["data-1"], notAbove: "12Gi" })],
  ])("says nothing of a plan %s that waits", (_of, object) => {
    expect(said(statusAfter(object, []))).toEqual(["InUse False Unused"]);
  });

  it("has messages of at most 160 characters, however long a claim's name is", () => {
    const object = anApproval("ok", { notAbove: "12Gi" });
    const claim = { namespace: "shop", name: "d".repeat(253), labels: {} };
    const entry = {
      object: { ...object, spec: { ...object.spec, claims: [claim.name] } },
      approval: readApproval(object),
    };
    const waiting = [{ claim, needed: { action: "Extend", sizeBytes: 15 * GIB } as const }];
    const { conditions = [] } = approvalStatus({ ...entry, isIgnored: false }, createApprovalUses(), waiting, NOW_MS);
    expect(conditions.map(({ message }) => message.length)).toEqual([expect.any(Number), 160]);
  });

  it("says that it is over, and no more", () => {
    const object = anApproval("ok", { notAbove: "12Gi", notAfter: "2026-11-20T12:00:00Z" });
    expect(said(statusAfter(object))).toEqual(["InUse False Expired"]);
  });

  it("says that it cannot be read, or is one too many", () => {
    expect(said(statusAfter(anApproval("ok", { notAfter: "soon" })))).toEqual(["InUse False ApprovalInvalid"]);
    const entry = { object: anApproval("ok"), approval: readApproval(anApproval("ok")), isIgnored: true };
    expect(said(approvalStatus(entry, createApprovalUses(), [], NOW_MS))).toEqual(["InUse False TooManyApprovals"]);
  });
});

describe("the reports of approvals", () => {
  const reportsOf = (isLeader: boolean, approvals: Parameters<typeof createApprovalReports>[0]["approvals"]) => {
    const uses = createApprovalUses();
    const reports = createApprovalReports({
      ...{ client: servedClient({}), approvals, uses, isThere: () => false, isLeader: () => isLeader },
      nowMs: () => NOW_MS,
      log: createRecordingLog().log,
    });
    return { uses, reports };
  };

  it("give others their turn, however many approvals have nothing new to say", async () => {
    const before = anApproval("ok");
    const object = { ...before, status: statusAfter(before, [before], 0.5) };
    let looks = 0;
    let turns = 0;
    const others = (): unknown => setImmediate(() => (turns += 1) < 1000 && others());
    const entry = {
      ...{ object, approval: readApproval(before) },
      /** A look takes 1 ms at least. */
      get isIgnored() {
        looks += 1;
        if (looks === 1) others();
        for (const sinceMs = performance.now(); performance.now() - sinceMs < 1; );
        if (looks === 400) turnsUntilLast = turns;
        return false;
      },
    };
    let turnsUntilLast = 0;
    const { reports } = reportsOf(true, { entries: () => Array.from({ length: 200 }, () => entry) });
    reports.soon();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await reports.stop();
    expect(looks).toBeGreaterThanOrEqual(400);
    expect(turnsUntilLast).toBeGreaterThan(5);
  });

  it("forget volumes that are gone, on a replica that only watches, too", async () => {
    const { uses, reports } = reportsOf(false, { entries: () => [] });
    const facts = aVolume({ usedRatio: 0.9 });
    uses.noted("h", facts.claim, decide(facts, POLICY, NO_CEILINGS));
    expect(uses.waiting()).toHaveLength(1);
    reports.soon();
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await reports.stop();
    expect(uses.waiting()).toEqual([]);
  });
});

describe("what is noted of plans and approvals", () => {
  const facts = aVolume({ usedRatio: 0.9 });
  const hold = decide(facts, POLICY, NO_CEILINGS);
  const quiet = decide(aVolume(), POLICY, NO_CEILINGS);

  it("is news once, and again when the plan waits no longer", () => {
    const uses = createApprovalUses();
    expect(uses.noted("h", facts.claim, quiet)).toBe(false);
    expect(uses.noted("h", facts.claim, hold)).toBe(true);
    expect(
      uses.noted("h", facts.claim, { ...hold, awaits: { action: "Extend", sizeBytes: 15 * GIB + 1 } } as typeof hold),
    ).toBe(false);
    expect(uses.noted("h", facts.claim, quiet)).toBe(true);
    expect(uses.waiting()).toEqual([]);
  });

  it("is what is needed now, by however little it differs", () => {
    const uses = createApprovalUses();
    uses.noted("h", facts.claim, hold);
    const more = { action: "Extend", sizeBytes: 15.5 * GIB } as const;
    uses.noted("h", facts.claim, { ...hold, awaits: more } as typeof hold);
    expect(uses.waiting().map(({ needed }) => needed)).toEqual([more]);
  });

  it("is a use of an approval only once it is written", () => {
    const approval = readApproval(anApproval("ok"));
    const approved = decide(
      aVolume({ usedRatio: 0.9, facts: { approvals: approval && [approval] } }),
      POLICY,
      NO_CEILINGS,
    );
    if (approved.kind === "hold" || approval === undefined) throw new Error("it is not approved");
    const uses = createApprovalUses();
    uses.noted("h", facts.claim, approved);
    expect(uses.firstBy(approval.wording)).toBeUndefined();
    expect([uses.written(facts.claim, approved), uses.written(facts.claim, approved)]).toEqual([true, false]);
    expect(uses.firstBy(approval.wording)).toMatchObject({ needed: { sizeBytes: 15 * GIB } });
  });

  it("ends with its volume", () => {
    const uses = createApprovalUses();
    uses.noted("h", facts.claim, hold);
    uses.retain(new Set(), () => false);
    expect(uses.waiting()).toEqual([]);
  });
});
