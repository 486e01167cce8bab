// Whether a shrink that runs, or was decided and is not begun, is still wanted. A policy that is gone, suspended, or does not enforce
// shrinks any more is the button by which people stop one: it ends after its step, and what was reached stays.
import type { HoldReason } from "../../api/reasons.ts";
import { effectiveMode } from "./cooldowns.ts";
import type { HoldPlan } from "./plan.ts";
import type { Question } from "./question.ts";

/** Undefined: it is still wanted, or no policy has asked for it. */
export function stopUnwantedShrink(question: Question): HoldPlan | undefined {
  const { policyShrink, operationInProgress } = question.facts.filesystem;
  if (policyShrink === undefined) return undefined;
  const withdrawal = withdrawalOf(question);
  if (withdrawal === undefined) return undefined;
  // What runs may be the extend that takes in a larger member first.
  const stopped =
    operationInProgress === "Shrink"
      ? "the shrink that runs ends after its step, and the size stays as far as it has come"
      : "the shrink that was decided does not begin any more";
  const message = `${withdrawal.because}: ${stopped}`;
  // Asked once: each further word would only be another write.
  return question.hold(withdrawal.reason, message, { stopsShrink: policyShrink === "Running" });
}

function withdrawalOf(question: Question): { readonly reason: HoldReason; readonly because: string } | undefined {
  const { policy } = question;
  if (policy === undefined) return { reason: "NoPolicy", because: "no policy selects the claim any more" };
  if (policy.suspended) return { reason: "PolicySuspended", because: `policy ${policy.key} is suspended` };
  const { mode, by } = effectiveMode(question, "shrink");
  switch (mode) {
    case "Enforce":
      return undefined;
    case "Recommend":
      return { reason: "Recommended", because: `the mode of shrinks is Recommend${by}` };
    case "Approve":
      return { reason: "ApprovalRequired", because: `the mode of shrinks is Approve${by}` };
  }
}
