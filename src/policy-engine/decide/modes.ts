// What may be done with a wanted change: the mode of its rule or of its policy, the ceilings over both, and the approvals of its claim.
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes, formatQuantity, GIB, MIB } from "../../contracts/quantities/quantity.ts";
import type { Facts } from "../facts/facts.ts";
import { type Approval, coveringApproval, isWithin, type Needed } from "../policies/approvals.ts";
import { freedom } from "../policies/ceilings.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import type { Direction } from "./plan.ts";
import type { EffectiveMode, Question } from "./question.ts";

/** Of what no mode stands against: a raised request, and what is needed before a writer finds the disk full. */
export const FREE: EffectiveMode = { mode: "Enforce", by: "" };

/** The rule's mode, else the policy's of that direction, or the ceiling's where that is stricter. */
export function effectiveMode(
  { policy, ceilings }: Pick<Question, "policy" | "ceilings">,
  direction: Direction,
  rule: CompiledRule | undefined,
): EffectiveMode {
  const mode = rule?.mode ?? policy?.mode[direction] ?? "Enforce";
  const by = rule?.mode === undefined ? "" : ` by rule ${rule.name}`;
  const ceiling = ceilings.modes[direction];
  if (ceiling === undefined || freedom(ceiling.value) >= freedom(mode)) return { mode, by };
  return { mode: ceiling.value, by: ` by ClusterVolumePolicy ${ceiling.policy}` };
}

/** Above the policy's approveAbove nothing is enforced. */
export function modeAbove({ mode, by }: EffectiveMode, approveAboveBytes: number): EffectiveMode {
  return mode === "Enforce"
    ? { mode: "Approve", by: ` above approveAbove (${formatBytes(approveAboveBytes)})` }
    : { mode, by };
}

/**
 * Whether its extends may need an approval, so that a writer could find the disk full before one is written. Under mode Recommend they are
 * those of rules with a freer mode of their own.
 */
export function mayNeedApproval(question: Pick<Question, "policy" | "ceilings">): boolean {
  const { mode } = effectiveMode(question, "extend", undefined);
  if (mode === "Recommend") return actsByRules(question);
  return mode === "Approve" || question.policy?.approveAboveBytes !== undefined;
}

/** One of its Extend rules does more than to recommend. */
export function actsByRules({ policy, ceilings }: Pick<Question, "policy" | "ceilings">): boolean {
  return extendRulesOf(policy).some((rule) => effectiveMode({ policy, ceilings }, "extend", rule).mode !== "Recommend");
}

/** An extend by its own mode, or by one of its Extend rules', may be made without an approval. */
export function isEnforcedAnywhere({ policy, ceilings }: Pick<Question, "policy" | "ceilings">): boolean {
  return [undefined, ...extendRulesOf(policy)].some(
    (rule) => effectiveMode({ policy, ceilings }, "extend", rule).mode === "Enforce",
  );
}

function extendRulesOf(policy: CompiledPolicy | undefined): readonly CompiledRule[] {
  return (policy?.formerRules ?? policy?.rules ?? []).filter(({ action }) => action === "Extend");
}

/** The approval by which the change may be made now; undefined: there is none. */
export function approvalOf({ nowMs, approvals = [] }: Facts, needed: Needed): Approval | undefined {
  return coveringApproval(approvals, needed, nowMs);
}

/** What to write, and why: completes a hold's message. `because` has the figures. */
export function approvalText({ nowMs, approvals = [] }: Facts, needed: Needed, by: string, because: string): string {
  const remedy = `write a ScalingApproval (action: ${needed.action}, ${boundOf(needed)}); the mode is Approve${by}`;
  const ended = approvals.find((approval) => isWithin(approval, needed));
  if (ended !== undefined)
    return withDetail(`${remedy}; ${ended.name} ended ${new Date(ended.notAfterMs).toISOString()}`, because);
  const narrow = approvals.find(({ action, notAfterMs }) => action === needed.action && nowMs < notAfterMs);
  return withDetail(narrow === undefined ? remedy : `${remedy}; ${narrow.name} ${boundText(narrow)}`, because);
}

/** "notAbove: 15Gi", as it is written in the spec; a little wider than what is needed, so that it still covers it a moment later. */
export function boundOf({ action, sizeBytes }: Needed): string {
  const unit = sizeBytes >= GIB ? GIB : MIB;
  return action === "Extend"
    ? `notAbove: ${formatQuantity(Math.ceil(sizeBytes / unit) * unit)}`
    : `notBelow: ${formatQuantity(Math.max(MIB, Math.floor(sizeBytes / unit) * unit))}`;
}

function boundText({ action, boundBytes }: Approval): string {
  return action === "Extend" ? `ends at ${formatBytes(boundBytes)}` : `begins at ${formatBytes(boundBytes)}`;
}
