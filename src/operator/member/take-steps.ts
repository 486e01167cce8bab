// Takes the steps that a member's plan asks for, none again before anybody could have seen it. What the API server refuses for good is
// a sentence for people, not an error.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { KubeError } from "../../kube/kube-error.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { ForeignClaimError, takeStep } from "./member-steps.ts";
import type { Pace } from "./pace.ts";
import type { MemberStep } from "./plan-member.ts";

export interface StepTaking extends Placing {
  /** Of asking a provisioner again that has sent a claim away. */
  readonly reselection: Pace;
  /** Of making what was made a moment ago: caches may not show it yet. */
  readonly making: Pace;
}

/** Returns why a step is refused; undefined: all that were due are taken. Throws KubeError where the API server fails. */
export async function takeSteps(
  taking: StepTaking,
  layout: FilesystemLayout,
  member: MemberSpec,
  steps: readonly MemberStep[],
): Promise<string | undefined> {
  const { reselection } = taking;
  const due = steps.filter((step) => step.do !== "select-node" || reselection.mayAsk(step.claim.metadata.uid ?? ""));
  try {
    for (const step of due) await takeOnce(taking, layout, member, step);
    return undefined;
  } catch (error) {
    // A quota, a policy, a name that is taken: said to people, and looked at again with every change of the volume.
    if (error instanceof ForeignClaimError || error instanceof UnsafeHomeError) return error.message;
    if (error instanceof KubeError && (error.reason === "Forbidden" || error.reason === "Invalid"))
      return `member ${member.name}: ${error.message}`;
    throw error;
  }
}

async function takeOnce(
  taking: StepTaking,
  layout: FilesystemLayout,
  member: MemberSpec,
  step: MemberStep,
): Promise<void> {
  const { making } = taking;
  const isMade = step.do === "create-claim" || step.do === "attach";
  const key = `${layout.metadata.uid}/${member.name}/${step.do === "attach" ? step.nodeName : ""}`;
  if (isMade && !making.mayAsk(key)) return;
  try {
    await takeStep(taking, layout, member, step);
  } catch (error) {
    making.forget(key);
    throw error;
  }
}
