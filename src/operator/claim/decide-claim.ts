// Whether an ordinary claim gets a Filesystem, what its layout says (the claim is its own only member), and what the Filesystem's status
// says: how large it is, and how far its own driver and kubelet have come with a resize. Pure: time comes in. An adopted claim stays
// adopted until it goes, so that a policy that comes back finds what it knew. While no policy opts the claim in, no size is applied to
// it.
import { driverNamed } from "../../contracts/csi/driver.ts";
import type { ClaimSource } from "../../contracts/kinds/claim-source.ts";
import type { Filesystem, SizeTarget } from "../../contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  FS_TYPES,
  type MemberSpec,
} from "../../contracts/kinds/filesystem-layout.ts";
import type { PersistentVolume } from "../../contracts/kubernetes/resources.ts";
import { API_VERSION, RECORDS, REFUSAL_ANNOTATION } from "../../contracts/names.ts";
import {
  type ClaimResize,
  claimResizeOf,
  infeasibleMessage,
  otherAutoscalerOf,
} from "../../contracts/ordinary-claim.ts";
import { withDetail, wordsOfDriver } from "../../contracts/printable.ts";
import { formatBytes, parseQuantity, readQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason, HoldReason } from "../../contracts/reasons.ts";
import { type Statement, statement } from "../../contracts/schema/condition.ts";
import type { ApplyConfiguration } from "../../platform/kube/client/client.ts";
import { decideTarget } from "../decide/decide-target.ts";
import { filesystemStatus } from "../volumes/layout-fields.ts";
import type { OrdinaryClaim } from "./claim-facts.ts";

/** The only member of an ordinary claim's filesystem. */
const MEMBER_NAME = "claim";

/** Whether it is, or is to be, a filesystem of the backend claim. */
export function isAdopted(facts: OrdinaryClaim): boolean {
  const { claim, volume, storageClass, layout } = facts;
  if (volume === undefined || (layout !== undefined && layout.spec.backend !== "claim")) return false;
  // Only CSI drivers expand, and only what has a filesystem is measured.
  if (volume.spec.csi === undefined || claim.spec.volumeMode === "Block") return false;
  if (driverNamed(volume.spec.csi.driver) !== undefined) return false;
  if (layout !== undefined) return true;
  const isSized = claimResizeOf(claim) !== undefined;
  return facts.optedInBy !== undefined && storageClass?.allowVolumeExpansion === true && isSized;
}

/** The last target that was carried out, or set aside. */
export interface CarriedTarget {
  readonly target: SizeTarget;
  /** What the API server said against it, for people. */
  readonly refusal: string | undefined;
}

export function carriedTarget({ metadata, spec }: FilesystemLayout): CarriedTarget | undefined {
  return spec.target && { target: spec.target, refusal: metadata.annotations?.[REFUSAL_ANNOTATION] };
}

/** The whole layout. */
export function claimLayout(
  facts: OrdinaryClaim,
  volume: PersistentVolume,
  carried: CarriedTarget | undefined,
): ApplyConfiguration {
  const { handle, claim, nodeName } = facts;
  const { namespace, name, uid } = claim.metadata;
  const fsType = FS_TYPES.find((known) => known === volume.spec.csi?.fsType);
  const members: MemberSpec[] = [{ name: MEMBER_NAME, source: { claim: sourceOf({ claim }, volume) } }];
  return {
    apiVersion: API_VERSION,
    kind: FILESYSTEM_LAYOUTS.kind,
    metadata: {
      name: handle,
      annotations: {
        [RECORDS.requestedSize]: nominalSize(facts),
        ...(carried?.refusal === undefined ? {} : { [REFUSAL_ANNOTATION]: carried.refusal }),
      },
    },
    spec: {
      claimRef: { namespace, name, uid },
      volumeUID: uid,
      backend: "claim",
      ...(fsType === undefined ? {} : { fsType }),
      ...(nodeName === undefined ? {} : { nodeName }),
      members,
      ...(carried === undefined ? {} : { target: carried.target }),
    },
  };
}

function sourceOf({ claim }: Pick<OrdinaryClaim, "claim">, { metadata, spec }: PersistentVolume): ClaimSource {
  const capacity = claim.status?.capacity?.storage;
  return {
    name: claim.metadata.name,
    ...(claim.metadata.uid === undefined ? {} : { uid: claim.metadata.uid }),
    volumeName: metadata.name,
    ...(spec.csi === undefined ? {} : { driver: spec.csi.driver, volumeHandle: spec.csi.volumeHandle }),
    ...(capacity === undefined ? {} : { capacity }),
  };
}

// A request over all that we asked for is its user's, and so is one under the record: we never lower one, and the API server lets
// him down to what was provided. Limits that default to the nominal size follow him, and never us.
function nominalSize({ claim, layout, filesystem }: OrdinaryClaim): string {
  const request = claim.spec.resources?.requests?.storage;
  const recorded = layout?.metadata.annotations?.[RECORDS.requestedSize];
  // What cannot be read, people have written over.
  const [requestBytes, recordedBytes] = [readQuantity(request), readQuantity(recorded)];
  if (recorded === undefined || recordedBytes === undefined) return request ?? "0";
  if (request === undefined || requestBytes === undefined) return recorded;
  // The claim may be heard of before the layout that says what was asked for.
  const asked = [layout?.spec.target, filesystem?.spec.target].map((target) => readQuantity(target?.size) ?? 0);
  return requestBytes < recordedBytes || requestBytes > Math.max(...asked, recordedBytes) ? request : recorded;
}

type RequestPlan =
  | { readonly do: "keep" }
  | { readonly do: "raise"; readonly target: SizeTarget }
  /** Nothing is to be raised; the target is done with. */
  | { readonly do: "set aside"; readonly target: SizeTarget; readonly refusal: RequestRefusal | undefined };

export interface RequestRefusal {
  readonly reason: ConditionReason | HoldReason;
  readonly message: string;
}

/**
 * Whether the size that the policy-engine wants becomes the claim's request. A request is only ever raised, once for each target, while a
 * policy opts the claim in and no other writer raises it. Any other target is set aside and never taken up later, when its reason may be
 * long gone: the engine decides again.
 */
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
    return refuse("ClaimBackendDisabled", "no policy opts the claim in: its request stays as it is");
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
  return resize.stage === "OnController"
    ? statement(
        "Reconciling",
        true,
        "OperationRunning",
        withDetail(
          `driver ${driverOf(facts)} expands it from ${from} to ${to}`,
          resize.message && wordsOfDriver(resize.message),
        ),
      )
    : statement(
        "Reconciling",
        true,
        "NodeResizePending",
        withDetail(`${onNodeText(facts)}, from ${from} to ${to}`, resize.message && wordsOfDriver(resize.message)),
      );
}

function onNodeText({ nodeName }: OrdinaryClaim): string {
  return nodeName === undefined
    ? "the volume is expanded, and its filesystem grows when a pod uses it"
    : `the volume is expanded, and kubelet on node ${nodeName} grows its filesystem soon`;
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
