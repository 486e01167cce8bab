// Approvals as decisions use them: sizes in bytes, times in milliseconds, which claims each one names, and what it covers. Nothing here reads
// a clock: an approval ends by the instant of the decision.
import type { OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import type { ScalingApproval } from "../../contracts/kinds/scaling-approval.ts";
import { readQuantity } from "../../contracts/quantities/quantity.ts";
import { type Labels, matchesSelector } from "../../contracts/schema/label-selector.ts";

export interface Approval {
  readonly name: string;
  /** Names this very wording of it: another one has approved nothing so far. */
  readonly wording: string;
  readonly action: OperationKind;
  /** Of an extend the largest size, of a shrink the smallest. */
  readonly boundBytes: number;
  /** Unix time: nothing is approved from then on. */
  readonly notAfterMs: number;
}

/** What a plan needs an approval for. */
export interface Needed {
  readonly action: OperationKind;
  readonly sizeBytes: number;
}

/** Undefined: it cannot be read, and approves nothing. Total. */
export function readApproval({ metadata, spec }: ScalingApproval): Approval | undefined {
  const boundBytes = readQuantity(spec.action === "Extend" ? spec.notAbove : spec.notBelow);
  const notAfterMs = Date.parse(spec.notAfter);
  if (boundBytes === undefined || Number.isNaN(notAfterMs)) return undefined;
  const { name, uid = "", generation = 0 } = metadata;
  return { name, wording: `${uid}/${generation}`, action: spec.action, boundBytes, notAfterMs };
}

/** Whether it names a claim of its own namespace. One with neither names nor a selector names none. */
export function namesClaim(
  { claims, selector }: ScalingApproval["spec"],
  claim: { readonly name: string; readonly labels: Labels },
): boolean {
  if (claims !== undefined) return claims.includes(claim.name);
  return selector !== undefined && matchesSelector(selector, claim.labels);
}

export function isOver({ notAfterMs }: Approval, nowMs: number): boolean {
  return !(nowMs < notAfterMs);
}

/** Whether the size is within it; that it is not over is another question. */
export function isWithin({ action, boundBytes }: Approval, needed: Needed): boolean {
  if (action !== needed.action) return false;
  return action === "Extend" ? needed.sizeBytes <= boundBytes : needed.sizeBytes >= boundBytes;
}

/** The one that covers what is needed now; of several the one that lasts longest. */
export function coveringApproval(approvals: readonly Approval[], needed: Needed, nowMs: number): Approval | undefined {
  return approvals
    .filter((approval) => isWithin(approval, needed) && !isOver(approval, nowMs))
    .reduce<Approval | undefined>(
      (longest, one) => (longest === undefined || one.notAfterMs > longest.notAfterMs ? one : longest),
      undefined,
    );
}
