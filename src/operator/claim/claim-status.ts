// What a Filesystem's status says of an ordinary claim: how large it is, and how far its own driver and kubelet have come with a
// resize. Pure: time comes in.
import { type ClaimResize, claimResizeOf, infeasibleMessage } from "../../api/claim-resize.ts";
import { type Statement, statement } from "../../api/condition.ts";
import type { Filesystem } from "../../api/filesystem.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import { filesystemStatus } from "../filesystem-status.ts";
import type { OrdinaryClaim } from "./claim-facts.ts";
import { carriedTarget } from "./decide-adoption.ts";

export function claimStatus(facts: OrdinaryClaim, filesystem: Filesystem, nowMs: number): ApplyConfiguration {
  const { handle, nodeName } = facts;
  const resize = claimResizeOf(facts.claim);
  const said = {
    ready: readyOf(facts, resize),
    reconciling: reconcilingOf(facts, resize),
    stalled: stalledOf(facts, filesystem, resize),
  };
  return filesystemStatus(
    filesystem,
    { handle, capacityBytes: resize?.capacityBytes, nodeName, lastTrim: undefined, consolidation: undefined, ...said },
    nowMs,
  );
}

function readyOf(facts: OrdinaryClaim, resize: ClaimResize | undefined): Statement {
  if (resize === undefined) return statement("Ready", false, "Provisioning", "the claim does not say yet what it has");
  const where = facts.nodeName === undefined ? "attached nowhere" : `on node ${facts.nodeName}`;
  return statement(
    "Ready",
    true,
    "Ready",
    `${formatBytes(resize.capacityBytes)} of driver ${driverOf(facts)}, ${where}`,
  );
}

function reconcilingOf(facts: OrdinaryClaim, resize: ClaimResize | undefined): Statement | undefined {
  if (resize?.stage !== "OnController" && resize?.stage !== "OnNode") return undefined;
  const [from, to] = [formatBytes(resize.capacityBytes), formatBytes(resize.requestBytes)];
  const words = resize.message === undefined ? "" : `: ${resize.message}`;
  return resize.stage === "OnController"
    ? statement(
        "Reconciling",
        true,
        "OperationRunning",
        `driver ${driverOf(facts)} expands it from ${from} to ${to}${words}`,
      )
    : statement("Reconciling", true, "NodeResizePending", `${onNodeText(facts)}, from ${from} to ${to}${words}`);
}

function onNodeText({ nodeName }: OrdinaryClaim): string {
  return nodeName === undefined
    ? "the volume is expanded, and its filesystem grows when a pod uses it"
    : `the volume is expanded, and kubelet on node ${nodeName} is to grow its filesystem, with its next look at the pod`;
}

function stalledOf(
  facts: OrdinaryClaim,
  filesystem: Filesystem,
  resize: ClaimResize | undefined,
): Statement | undefined {
  if (resize?.stage === "Infeasible")
    return statement("Stalled", true, "ResizeInfeasible", infeasibleMessage(resize, driverOf(facts)));
  const carried = facts.layout && carriedTarget(facts.layout);
  if (carried?.refusal === undefined || !isStillWanted(filesystem)) return undefined;
  const isMet = resize !== undefined && resize.requestBytes >= parseQuantity(carried.target.size);
  return isMet ? undefined : statement("Stalled", true, "ResizeFailed", carried.refusal);
}

/** Until the policy-engine says anything else it wants what it wanted last; it waits before it asks again. */
function isStillWanted({ status }: Filesystem): boolean {
  const { plan, reason } = status?.scaling ?? { plan: "extend" };
  return plan === "extend" || reason === "OperationInProgress" || reason === "CoolingDown";
}

function driverOf({ volume, claim }: OrdinaryClaim): string {
  return volume?.spec.csi?.driver ?? `of class ${claim.spec.storageClassName}`;
}
