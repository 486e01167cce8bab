// Which volumes' plans wait for an approval, and which approvals have let one be carried out. The engine notes it with each decision, so it
// costs next to nothing for the many volumes that need none.
import type { Plan } from "../decide/plan.ts";
import type { ApprovableClaim } from "../gather/approval-book.ts";
import type { Needed } from "../policies/approvals.ts";

export interface WaitingPlan {
  readonly claim: ApprovableClaim;
  readonly needed: Needed;
}

interface ApprovedChange {
  readonly claim: string;
  readonly needed: Needed;
}

export interface ApprovalUses {
  /** Whether a reader of an approval's status may learn something new. */
  noted(handle: string, claim: ApprovableClaim, plan: Plan): boolean;
  /** The plans that wait, of volumes that there are. */
  waiting(isThere: (handle: string) => boolean): WaitingPlan[];
  /** The first change by this wording of an approval; undefined: this process has made none. */
  firstBy(wording: string): ApprovedChange | undefined;
  /** These are all wordings that there are. */
  retain(wordings: ReadonlySet<string>): void;
}

/** What grows by less is the same to a reader. */
const SAME_SIZE_RATIO = 0.05;

export function createApprovalUses(): ApprovalUses {
  const waiting = new Map<string, WaitingPlan>();
  const approved = new Map<string, ApprovedChange>();
  const noteApproved = (wording: string, change: ApprovedChange): boolean => {
    if (approved.has(wording)) return false;
    approved.set(wording, change);
    return true;
  };
  return {
    noted: (handle, { namespace, name, labels }, plan) => {
      const before = waiting.get(handle);
      const needed = plan.kind === "hold" ? plan.awaits : undefined;
      if (needed !== undefined) {
        if (before !== undefined && isSame(before.needed, needed)) return false;
        waiting.set(handle, { claim: { namespace, name, labels }, needed });
        return true;
      }
      const isOver = waiting.delete(handle);
      if (plan.kind === "hold" || plan.approval === undefined) return isOver;
      const { action, wording } = plan.approval;
      return noteApproved(wording, { claim: name, needed: { action, sizeBytes: plan.sizeBytes } }) || isOver;
    },
    waiting: (isThere) => {
      for (const handle of waiting.keys()) if (!isThere(handle)) waiting.delete(handle);
      return [...waiting.values()];
    },
    firstBy: (wording) => approved.get(wording),
    retain: (wordings) => {
      for (const wording of approved.keys()) if (!wordings.has(wording)) approved.delete(wording);
    },
  };
}

function isSame(before: Needed, now: Needed): boolean {
  const difference = Math.abs(before.sizeBytes - now.sizeBytes);
  return before.action === now.action && difference <= SAME_SIZE_RATIO * Math.max(before.sizeBytes, now.sizeBytes);
}
