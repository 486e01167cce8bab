// What a member that is part of its filesystem, or shall be, needs next: claim, volume, attachment, room. Pure. Steps are taken in
// order, and what the layout says of the source follows them: no node hears of a volume that is not kept yet.
import type { ClaimSource, MemberSpec } from "../../api/filesystem-layout.ts";
import { SELECTED_NODE } from "../../api/names.ts";
import type { PersistentVolume, PersistentVolumeClaim, VolumeAttachment } from "../../kube/resources.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import { attachmentOf, boundSource } from "./claim-source.ts";
import { keptVolume, unfitVolume } from "./member-claim.ts";
import type { MemberFacts } from "./member-facts.ts";

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
  readonly deviceBytes: number | undefined;
}

const NOTHING: MemberPlan = { steps: [], source: undefined, waiting: undefined, problem: undefined };

export function planMember(facts: MemberFacts, place: MemberPlace): MemberPlan {
  const { member, claim, volume } = facts;
  const known = member.source.claim;
  if (claim === undefined)
    return known?.uid === undefined ? order(member, place.selectedNode) : problem(lostClaim(known, "is gone"));
  const { name, uid } = claim.metadata;
  if (known?.uid !== undefined && known.uid !== uid) return problem(lostClaim(known, `was made anew, as ${uid}`));
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

function planBound(
  facts: MemberFacts,
  claim: PersistentVolumeClaim,
  volume: PersistentVolume,
  place: MemberPlace,
): MemberPlan {
  const { member } = facts;
  const patch = keptVolume(volume, place.volumeUID, member);
  const keep: MemberStep[] = patch === undefined ? [] : [{ do: "keep-volume", volume, patch }];
  const growth = member.state === "Removed" ? NOTHING : planGrowth(member, claim, volume, place.deviceBytes);
  const attached = planAttachment(facts, volume, place.nodeName);
  const source = { ...boundSource(claim, volume), ...(attached.attachment && { attachment: attached.attachment }) };
  // A member on its way to a node is told of once, with its attachment.
  const isOnItsWay = attached.waiting !== undefined && member.source.claim?.uid === undefined;
  return {
    steps: [...keep, ...growth.steps, ...attached.steps],
    source: isOnItsWay ? undefined : source,
    waiting: attached.waiting ?? growth.waiting,
    problem: undefined,
  };
}

/**
 * A provisioner that has no room on the selected node takes the selection back. A member has no other node to go to: it is selected
 * again where the volume is, or can be. The first one, which is nowhere yet, is CreateVolume's.
 */
function planPending(member: MemberSpec, claim: PersistentVolumeClaim, { selectedNode }: MemberPlace): MemberPlan {
  const { name, annotations } = claim.metadata;
  const isSentAway = selectedNode !== undefined && annotations?.[SELECTED_NODE] === undefined;
  return {
    ...waiting(`member ${member.name}: claim ${name} of class ${claim.spec.storageClassName} is not bound yet`),
    steps: isSentAway ? [{ do: "select-node", claim, nodeName: selectedNode }] : [],
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
  { member, attachments, attachRequired }: MemberFacts,
  volume: PersistentVolume,
  nodeName: string | undefined,
): Part & { readonly attachment?: ClaimSource["attachment"] } {
  const driver = volume.spec.csi?.driver ?? "";
  if (nodeName === undefined) return { steps: [], waiting: undefined };
  if (!attachRequired) return { steps: [], waiting: undefined, attachment: { nodeName } };
  const before = member.source.claim?.attachment;
  // What attaching it has told holds as long as that very VolumeAttachment is there, and no longer.
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
      steps: [{ do: "attach", volume, driver, nodeName }],
      ...kept,
      waiting: onItsWay(member, driver, nodeName),
    };
  const attachment = attachmentOf(here);
  if (attachment !== undefined) return { steps: [], attachment, waiting: undefined };
  return { steps: [], ...kept, waiting: onItsWay(member, driver, nodeName, here) };
}

function onItsWay({ name }: MemberSpec, driver: string, nodeName: string, attachment?: VolumeAttachment): string {
  const error = attachment?.status?.attachError?.message;
  return `member ${name}: ${driver} to attach it to node ${nodeName}${error === undefined ? "" : `, which says: ${error}`}`;
}

function lostClaim({ name, uid }: ClaimSource, how: string): string {
  return `member claim ${name} (UID ${uid}) ${how}; nothing is made in its place; restore it, or its PersistentVolume, which is kept`;
}

function waiting(text: string): MemberPlan {
  return { ...NOTHING, waiting: text };
}

function problem(text: string): MemberPlan {
  return { ...NOTHING, problem: text };
}
