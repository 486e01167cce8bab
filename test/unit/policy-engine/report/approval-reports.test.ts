import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { readApproval } from "../../../../src/policy-engine/policies/approvals.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { approvalStatus } from "../../../../src/policy-engine/report/approval-reports.ts";
import { createApprovalUses } from "../../../../src/policy-engine/report/approval-uses.ts";
import { anApproval } from "../../../builders/approval.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";

const POLICY = aPolicy({ mode: { extend: "Approve", shrink: "Approve" } });

/** The status of this approval, once its volume was decided with these in force. */
function statusAfter(object = anApproval("ok"), inForce = [object], usedRatio = 0.9, nowMs = NOW_MS) {
  const approvals = inForce.flatMap((one) => readApproval(one) ?? []);
  const facts = aVolume({ usedRatio, facts: { approvals } });
  const uses = createApprovalUses();
  uses.noted("h", facts.claim, decide(facts, POLICY, NO_CEILINGS));
  const entry = { object, approval: readApproval(object), isIgnored: false };
  return approvalStatus(
    entry,
    uses,
    uses.waiting(() => true),
    nowMs,
  );
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
    expect(uses.waiting(() => true)).toEqual([]);
  });

  it("ends with its volume", () => {
    const uses = createApprovalUses();
    uses.noted("h", facts.claim, hold);
    expect(uses.waiting(() => false)).toEqual([]);
  });
});
