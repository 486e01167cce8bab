// Whether the size that the policy-engine wants becomes the claim's request. Pure. A request is only ever raised, once for each
// target, while somebody opts the claim in and nobody else raises it; any other target is set aside and never taken up later, when
// the reason for it may long be gone: the engine decides again.
import { claimResizeOf, infeasibleMessage } from "../../api/claim-resize.ts";
import type { Filesystem, SizeTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { otherAutoscalerOf } from "../../api/other-autoscalers.ts";
import type { ConditionReason, HoldReason } from "../../api/reasons.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import { decideTarget } from "../volume/decide-target.ts";
import type { OrdinaryClaim } from "./claim-facts.ts";

export type RequestPlan =
  | { readonly do: "keep" }
  | { readonly do: "raise"; readonly target: SizeTarget }
  /** Nothing is to be raised; the target is done with. */
  | { readonly do: "set aside"; readonly target: SizeTarget; readonly refusal: RequestRefusal | undefined };

export interface RequestRefusal {
  readonly reason: ConditionReason | HoldReason;
  readonly message: string;
}

export function decideRequest(facts: OrdinaryClaim, layout: FilesystemLayout, filesystem: Filesystem): RequestPlan {
  const plan = decideTarget(layout, filesystem);
  // A deposed leader's target changes nothing: the present one's next target replaces it.
  if (plan.do !== "copy") return { do: "keep" };
  const { target } = plan;
  const resize = claimResizeOf(facts.claim);
  const sizeBytes = parseQuantity(target.size);
  if (resize !== undefined && sizeBytes <= resize.requestBytes && sizeBytes >= parseQuantity(target.from))
    return { do: "set aside", target, refusal: undefined };
  const refusal = refusalOf(facts, sizeBytes);
  return refusal === undefined ? { do: "raise", target } : { do: "set aside", target, refusal };
}

function refusalOf(facts: OrdinaryClaim, sizeBytes: number): RequestRefusal | undefined {
  const { claim, storageClass, volume, optedInBy } = facts;
  const refuse = (reason: RequestRefusal["reason"], message: string): RequestRefusal => ({ reason, message });
  if (optedInBy === undefined)
    return refuse("ClaimBackendDisabled", "no policy opts the claim in any more: its request stays as it is");
  const autoscaler = otherAutoscalerOf(claim, storageClass);
  if (autoscaler !== undefined)
    return refuse("OtherAutoscaler", `the claim has ${autoscaler}: another autoscaler raises its request`);
  const resize = claimResizeOf(claim);
  if (resize === undefined || volume === undefined)
    return refuse("ResizeFailed", "the claim does not say what it asks for and has: its request stays as it is");
  if (sizeBytes <= resize.requestBytes)
    return refuse("ShrinkUnsupported", `a request is never lowered, as to ${formatBytes(sizeBytes)}`);
  if (storageClass?.allowVolumeExpansion !== true)
    return refuse(
      "ResizeFailed",
      `class ${claim.spec.storageClassName} does not allow expansion (allowVolumeExpansion)`,
    );
  if (resize.stage === "Infeasible")
    return refuse("ResizeInfeasible", infeasibleMessage(resize, volume.spec.csi?.driver));
  // Asked for twice, a volume that is slow to grow would grow twice.
  if (resize.stage !== "None")
    return refuse("OperationRunning", `the resize to ${formatBytes(resize.requestBytes)} has not ended yet`);
  return undefined;
}
