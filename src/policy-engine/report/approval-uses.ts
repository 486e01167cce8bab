// Which volumes' plans wait for an approval, and which approvals have let one be carried out. The engine notes it with each decision and each write, so it
// costs next to nothing for the many volumes that need none.
import type { ChangePlan, Plan } from "../decide/plan.ts";
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
  /** The change stands on the API server; the same. */
  written(claim: ApprovableClaim, plan: ChangePlan): boolean;
  /** The plans that wait. */
  waiting(): WaitingPlan[];
  /** The first change by this wording of an approval; undefined: this process has made none. */
  firstBy(wording: string): ApprovedChange | undefined;
  /** These are all wordings that there are; of volumes that are gone nothing waits. */
  retain(wordings: ReadonlySet<string>, isThere: (handle: string) => boolean): void;
}

/** What grows by less is the same to a reader. */
const SAME_SIZE_RATIO = 0.05;

export function createApprovalUses(): ApprovalUses {
  const waiting = new Map<string, WaitingPlan>();
  const approved = new Map<string, ApprovedChange>();
  return {
    noted: (handle, { namespace, name, labels }, plan) => {
      const before = waiting.get(handle);
      const needed = plan.kind === "hold" ? plan.awaits : undefined;
      if (needed !== undefined) {
        // What an approval is compared with is what is needed now: the last percent may be what it lacks.
        waiting.set(handle, { claim: { namespace, name, labels }, needed });
        return before === undefined || !isSame(before.needed, needed);
      }
      return waiting.delete(handle);
    },
    written: ({ name }, { approval, sizeBytes }) => {
      if (approval === undefined || approved.has(approval.wording)) return false;
      approved.set(approval.wording, { claim: name, needed: { action: approval.action, sizeBytes } });
      return true;
    },
    waiting: () => [...waiting.values()],
    firstBy: (wording) => approved.get(wording),
    retain: (wordings, isThere) => {
      for (const handle of waiting.keys()) if (!isThere(handle)) waiting.delete(handle);
      for (const wording of approved.keys()) if (!wordings.has(wording)) approved.delete(wording);
    },
  };
}

function isSame(before: Needed, now: Needed): boolean {
  const difference = Math.abs(before.sizeBytes - now.sizeBytes);
  return before.action === now.action && difference <= SAME_SIZE_RATIO * Math.max(before.sizeBytes, now.sizeBytes);
}
