// What a member that is part of its filesystem, or shall be, needs next: claim, volume, attachment, room; and what the layout says of it
// then. Pure. Steps are taken in order, and what the layout says of the source follows them. So no node learns of a volume before that is
// set to Retain.

import type { ClaimSource } from "../../contracts/kinds/claim-source.ts";
import type { MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type {
  CsiVolumeSource,
  PersistentVolume,
  PersistentVolumeClaim,
  VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { SELECTED_NODE } from "../../contracts/names.ts";
import { withDetail, wordsOfDriver } from "../../contracts/printable.ts";
import { formatBytes, parseQuantity } from "../../contracts/quantities/quantity.ts";
import { keptVolume, unfitVolume } from "../volumes/member-objects.ts";

/** Everything that is known of one member in addition to the layout. */
export interface SpanMemberFacts {
  readonly member: MemberSpec;
  readonly claim: PersistentVolumeClaim | undefined;
  /** The one that the claim names. */
  readonly volume: PersistentVolume | undefined;
  /** Of this member, to any node. */
  readonly attachments: readonly VolumeAttachment[];
  /** Whether the volume's driver has to attach it; as Kubernetes, true where there is no CSIDriver. */
  readonly attachRequired: boolean;
}

export type MemberStep =
  | { readonly do: "create-claim"; readonly selectedNode: string | undefined }
  | { readonly do: "select-node"; readonly claim: PersistentVolumeClaim; readonly nodeName: string }
  | { readonly do: "grow-claim"; readonly claim: PersistentVolumeClaim; readonly size: string }
  | { readonly do: "finish-growth"; readonly claim: PersistentVolumeClaim; readonly size: string }
  | { readonly do: "keep-volume"; readonly volume: PersistentVolume; readonly patch: object }
  | { readonly do: "attach"; readonly volume: PersistentVolume; readonly driver: string; readonly nodeName: string };

export interface MemberPlan {
  readonly steps: readonly MemberStep[];
  /** What the layout shall say of it; undefined: what it says already. */
  readonly source: ClaimSource | undefined;
  /** What it waits for. */
  readonly waiting: string | undefined;
  /** What is wrong with it, for people. */
  readonly problem: string | undefined;
}

/** Where the volume is to be attached, and the size of the device where its node has reported it. */
export interface MemberPlace {
  readonly volumeUID: string;
  readonly nodeName: string | undefined;
  /** The node that a provisioner is to make it for, where that is known. */
  readonly selectedNode: string | undefined;
  /** Why what was provisioned for it is out of reach. */
  readonly stranded: string | undefined;
  /** What its provisioner says against a claim that it does not bind. */
  readonly trouble: string | undefined;
  /** Of a spare: why its node has no attach slot for it. It takes none that members that hold data may need. */
  readonly full: string | undefined;
  readonly deviceBytes: number | undefined;
}

const NOTHING: MemberPlan = { steps: [], source: undefined, waiting: undefined, problem: undefined };

export function decideMember(facts: SpanMemberFacts, place: MemberPlace): MemberPlan {
  const { member, claim, volume } = facts;
  const known = member.source.claim;
  if (claim === undefined)
    return known?.uid === undefined ? order(member, place.selectedNode) : problem(lostClaim(known, "is gone"));
  const { name, uid } = claim.metadata;
  if (known?.uid !== undefined && known.uid !== uid) return problem(lostClaim(known, "was recreated"));
  if (claim.status?.phase === "Lost") return problem(`claim ${name} has lost its PersistentVolume`);
  if (claim.spec.volumeName === undefined || claim.status?.phase !== "Bound") return planPending(member, claim, place);
  if (volume === undefined)
    return waiting(`member ${member.name}: PersistentVolume ${claim.spec.volumeName} to be seen`);
  const unfit = unfitVolume(volume, claim) ?? place.stranded;
  return unfit === undefined ? planBound(facts, claim, volume, place) : problem(unfit);
}

function order({ name, size }: MemberSpec, selectedNode: string | undefined): MemberPlan {
  if (size === undefined) return problem(`member ${name} has no claim, and no record says how large it was`);
  return {
    ...NOTHING,
    steps: [{ do: "create-claim", selectedNode }],
    waiting: `member ${name}: a claim of ${size} is made`,
  };
}

/** What has come of a member in a pass. */
export interface MemberEnd {
  /** What the layout may say of it now. */
  readonly source: ClaimSource | undefined;
  readonly waiting: string | undefined;
  readonly wrong: string | undefined;
}

/** `denied`: why its steps were not all taken. `isSeen`: the API server shows what the plan says of its attachment. */
export function decideMemberEnd(
  { name }: MemberSpec,
  { source, waiting, problem }: MemberPlan,
  denied: string | undefined,
  isSeen: boolean,
): MemberEnd {
  if (denied !== undefined) return { source: undefined, waiting, wrong: denied };
  if (source === undefined || isSeen) return { source, waiting, wrong: problem };
  const toBeSeen = `member ${name}: its VolumeAttachment to be seen as it is`;
  return { source: undefined, waiting: waiting ?? toBeSeen, wrong: problem };
}

function planBound(
  facts: SpanMemberFacts,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  place: MemberPlace,
): MemberPlan {
  const { member } = facts;
  const patch = keptVolume(volume, place.volumeUID, member);
  const keep: MemberStep[] = patch === undefined ? [] : [{ do: "keep-volume", volume, patch }];
  const growth = member.state === "Removed" ? NOTHING : planGrowth(member, claim, volume, place.deviceBytes);
  const attached = planAttachment(facts, volume, place);
  const source = { ...boundSource(claim, volume), ...(attached.attachment && { attachment: attached.attachment }) };
  // A member on its way to a node: the layout gets its source and its attachment in one write.
  const isOnItsWay = attached.waiting !== undefined && member.source.claim?.uid === undefined;
  return {
    steps: [...keep, ...growth.steps, ...attached.steps],
    source: isOnItsWay ? undefined : source,
    waiting: attached.waiting ?? growth.waiting,
    problem: attached.problem,
  };
}

/**
 * A provisioner that has no room on the selected node takes the selection back. A member has no other node to go to: it is selected
 * again where the volume is, or can be. The first one, which is nowhere yet, is CreateVolume's.
 */
function planPending(
  member: MemberSpec,
  claim: PersistentVolumeClaim,
  { selectedNode, trouble }: MemberPlace,
): MemberPlan {
  const { name, annotations } = claim.metadata;
  const isSentAway = selectedNode !== undefined && annotations?.[SELECTED_NODE] === undefined;
  return {
    ...waiting(`member ${member.name}: claim ${name} of class ${claim.spec.storageClassName} is not bound yet`),
    steps: isSentAway ? [{ do: "select-node", claim, nodeName: selectedNode }] : [],
    problem: trouble,
  };
}

type Part = Pick<MemberPlan, "steps" | "waiting">;

/** Expanding a claim ends on the node; for a pod's volume kubelet would say so on the claim, for a member we do. */
function planGrowth(
  { name, size }: MemberSpec,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  deviceBytes: number | undefined,
): Part {
  if (size === undefined) return { steps: [], waiting: undefined };
  const wanted = parseQuantity(size);
  const requested = parseQuantity(claim.spec.resources?.requests?.storage ?? "0");
  const what = `member ${name}: claim ${claim.metadata.name} to grow to ${formatBytes(wanted)}`;
  if (requested < wanted) return { steps: [{ do: "grow-claim", claim, size }], waiting: what };
  const capacity = volume.spec.capacity?.storage ?? "0";
  if (parseQuantity(capacity) < wanted) return { steps: [], waiting: what };
  const isShown = parseQuantity(claim.status?.capacity?.storage ?? "0") >= parseQuantity(capacity);
  const isDone = deviceBytes !== undefined && deviceBytes >= parseQuantity(capacity);
  return { steps: isDone && !isShown ? [{ do: "finish-growth", claim, size: capacity }] : [], waiting: undefined };
}

function planAttachment(
  { member, attachments, attachRequired }: SpanMemberFacts,
  volume: PersistentVolume,
  { nodeName, full }: MemberPlace,
): Part & { readonly attachment?: ClaimSource["attachment"]; readonly problem?: string | undefined } {
  const driver = volume.spec.csi?.driver ?? "";
  if (nodeName === undefined) return { steps: [], waiting: undefined };
  if (!attachRequired) return { steps: [], waiting: undefined, attachment: { nodeName } };
  const before = member.source.claim?.attachment;
  // What the attacher has reported holds as long as that very VolumeAttachment is there, and no longer.
  const isOfNow = before?.uid !== undefined && attachments.some(({ metadata }) => metadata.uid === before.uid);
  const kept = isOfNow && before.nodeName === nodeName ? { attachment: before } : {};
  const elsewhere = attachments.find(({ spec }) => spec.nodeName !== nodeName);
  if (elsewhere !== undefined)
    return {
      steps: [],
      ...kept,
      waiting: `member ${member.name}: to be detached from node ${elsewhere.spec.nodeName}`,
    };
  const here = attachments.find(({ metadata }) => metadata.deletionTimestamp === undefined);
  if (here === undefined)
    return {
      steps: full === undefined ? [{ do: "attach", volume, driver, nodeName }] : [],
      ...kept,
      waiting: onItsWay(member, driver, nodeName),
      problem: full,
    };
  const attachment = attachmentOf(here);
  if (attachment !== undefined) return { steps: [], attachment, waiting: undefined };
  return { steps: [], ...kept, waiting: onItsWay(member, driver, nodeName, here) };
}

function onItsWay({ name }: MemberSpec, driver: string, nodeName: string, attachment?: VolumeAttachment): string {
  const error = attachment?.status?.attachError?.message;
  return withDetail(`member ${name}: ${driver} to attach it to node ${nodeName}`, error && wordsOfDriver(error));
}

function lostClaim({ name, uid }: ClaimSource, how: string): string {
  return `restore member claim ${name} or its retained PersistentVolume: it ${how} (UID ${uid})`;
}

function waiting(text: string): MemberPlan {
  return { ...NOTHING, waiting: text };
}

function problem(text: string): MemberPlan {
  return { ...NOTHING, problem: text };
}

/** Of a bound claim; attached nowhere. */
export function boundSource(claim: PersistentVolumeClaim, { metadata, spec }: PersistentVolume): ClaimSource {
  const { csi, capacity } = spec;
  return defined({
    name: claim.metadata.name,
    uid: claim.metadata.uid,
    volumeName: metadata.name,
    persistentVolumeUID: metadata.uid,
    driver: csi?.driver,
    volumeHandle: csi?.volumeHandle,
    volumeAttributes: csi?.volumeAttributes,
    capacity: capacity?.storage,
    nodeStageSecretRef: secretOf(csi?.nodeStageSecretRef),
    nodePublishSecretRef: secretOf(csi?.nodePublishSecretRef),
    nodeExpandSecretRef: secretOf(csi?.nodeExpandSecretRef),
  });
}

/** Undefined while it is not attached. */
export function attachmentOf(attachment: VolumeAttachment): ClaimSource["attachment"] {
  const { metadata, spec, status } = attachment;
  if (status?.attached !== true || metadata.deletionTimestamp !== undefined) return undefined;
  const context = status.attachmentMetadata;
  const { name, uid } = metadata;
  return {
    nodeName: spec.nodeName,
    name,
    ...(uid === undefined ? {} : { uid }),
    ...(context === undefined ? {} : { context }),
  };
}

export function withoutAttachment({ attachment: _gone, ...source }: ClaimSource): ClaimSource {
  return source;
}

function secretOf(reference: CsiVolumeSource["nodeStageSecretRef"]): ClaimSource["nodeStageSecretRef"] {
  if (reference?.namespace === undefined || reference.name === undefined) return undefined;
  return { namespace: reference.namespace, name: reference.name };
}

function defined(source: ClaimSource): ClaimSource {
  return Object.fromEntries(Object.entries(source).filter(([, value]) => value !== undefined)) as ClaimSource;
}
