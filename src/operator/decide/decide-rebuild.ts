// What to recreate when a user has deleted an object of a volume whose claim is still bound. Pure. Nothing is guessed: the
// size is whatever is found on the node, and an incomplete record stalls.
import type { MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type { PersistentVolume } from "../../contracts/kubernetes/resources.ts";
import {
  MEMBER_LABEL,
  MEMBER_NAMESPACE,
  NEXT_MEMBER_ANNOTATION,
  REFUSED_ANNOTATION,
  SELECTED_NODE,
  SELECTED_NODE_ANNOTATION,
} from "../../contracts/names.ts";
import type { ApplyConfiguration } from "../../platform/kube/client/client.ts";
import type { FoundMember, FoundMembers, LiveVolumeFacts, VolumeFacts } from "../gather/gather-volume.ts";
import { newLayout, recordedMember } from "../volumes/layout-fields.ts";
import { memberIndex } from "../volumes/member-objects.ts";
import {
  type ClaimIdentity,
  claimIdentityOf,
  type IncompleteRecord,
  isIncomplete,
  recordOfPersistentVolume,
  type VolumeRecord,
} from "../volumes/volume-record.ts";

interface RebuildPlan {
  readonly layout: ApplyConfiguration | undefined;
  /** The claim that has the volume now, where the layout still names one that is gone. */
  readonly claimRef: ClaimIdentity | undefined;
  /** The claim whose Filesystem is to be recreated. */
  readonly filesystemOf: ClaimIdentity | undefined;
  /** What its records lack, where the layout is needed and cannot be made. */
  readonly missing: readonly string[];
}

/** Whether the caches show a loss that is worth a look at the API server. */
export function looksLost({ layout, filesystem, persistentVolume }: VolumeFacts): boolean {
  const phase = persistentVolume?.status?.phase;
  const isComplete = layout !== undefined && filesystem !== undefined;
  const isMoved = layout !== undefined && layout.spec.claimRef?.uid !== persistentVolume?.spec.claimRef?.uid;
  return ((!isComplete || isMoved) && phase === "Bound") || (layout === undefined && phase === "Released");
}

/** Whether the layout of a span is to be recreated, for which its members' claims have to be there. */
export function needsMembers(facts: LiveVolumeFacts): boolean {
  const { layout, persistentVolume } = facts;
  if (layout !== undefined || persistentVolume === undefined || !looksLost(facts)) return false;
  if (!isBoundBack(facts) && !isStillAttached(facts)) return false;
  const record = recordOfPersistentVolume(persistentVolume);
  return !isIncomplete(record) && record.backend === "span";
}

/** Undefined: nothing was lost, or the volume is on its way out. */
export function decideRebuild(facts: LiveVolumeFacts): RebuildPlan | undefined {
  const { persistentVolume, layout, filesystem } = facts;
  if (persistentVolume === undefined || !looksLost(facts)) return undefined;
  const isBound = persistentVolume.status?.phase === "Bound" && isBoundBack(facts);
  const identity = claimIdentityOf(persistentVolume);
  if (identity === undefined || !(isBound || isStillAttached(facts))) return undefined;
  if (layout !== undefined && layout.spec.claimRef?.uid !== identity.uid) return decideMove(facts, identity);
  const rebuilt = layout === undefined ? rebuiltLayout(persistentVolume, facts) : undefined;
  const lacking = rebuilt !== undefined && isIncomplete(rebuilt) ? rebuilt : undefined;
  return {
    layout: rebuilt !== undefined && !isIncomplete(rebuilt) ? rebuilt : undefined,
    claimRef: undefined,
    filesystemOf: filesystem === undefined && isBound ? identity : undefined,
    missing: lacking?.missing ?? [],
  };
}

function rebuiltLayout(
  persistentVolume: PersistentVolume,
  { members, rivals }: Pick<LiveVolumeFacts, "members" | "rivals">,
): ApplyConfiguration | IncompleteRecord {
  if (rivals.length > 0)
    return {
      missing: [`one PersistentVolume (${[persistentVolume.metadata.name, ...rivals].join(", ")} all name it)`],
    };
  const record = recordOfPersistentVolume(persistentVolume);
  if (isIncomplete(record)) return record;
  if (record.backend === "span") return rebuiltSpan(record, members);
  return newLayout(record, [recordedMember(record, "Present")]);
}

/**
 * A volume that outlived its claim (Retain) is bound to a new one. PersistentVolumes are written by users, too: while
 * the former claim is there, or two of them name the volume, it stays with the former claim.
 */
function decideMove(
  { persistentVolume, layout, formerClaim, rivals }: LiveVolumeFacts,
  identity: ClaimIdentity,
): RebuildPlan | undefined {
  const isHeld = formerClaim !== undefined && formerClaim.metadata.uid === layout?.spec.claimRef?.uid;
  if (isHeld || rivals.length > 0 || persistentVolume === undefined) return undefined;
  if (isIncomplete(recordOfPersistentVolume(persistentVolume))) return undefined;
  return { layout: undefined, claimRef: identity, filesystemOf: identity, missing: [] };
}

/** The claim that the volume names is there, is that very one, wants this volume, and is not being deleted. */
function isBoundBack({ claim, persistentVolume }: LiveVolumeFacts): boolean {
  return (
    claim !== undefined &&
    claim.metadata.uid === persistentVolume?.spec.claimRef?.uid &&
    claim.spec.volumeName === persistentVolume?.metadata.name &&
    claim.metadata.deletionTimestamp === undefined
  );
}

/** Whatever became of its claim: only its node can say that it has released the volume, and says so on a layout. */
function isStillAttached({ layout, members }: LiveVolumeFacts): boolean {
  return layout === undefined && (members?.nodeNames.length ?? 0) > 0;
}

/**
 * From what its members' claims say. Whether the set is whole only the filesystem knows: its node compares the devices with the superblock,
 * and mounts nothing that lacks one.
 */
function rebuiltSpan(record: VolumeRecord, found: FoundMembers | undefined): ApplyConfiguration | IncompleteRecord {
  const all = [...(found?.members ?? [])].sort((a, b) => indexOf(a) - indexOf(b));
  const deleted = all.filter(isDeletedByOthers).map(({ claim }) => claim.metadata.name);
  if (deleted.length > 0) return { missing: [`claim ${deleted.join(", ")} (being deleted; then it is recreated)`] };
  const staying = all.filter((member) => !isLeaving(member));
  const nodeNames = found?.nodeNames ?? [];
  if (staying.length === 0) return { missing: [`member claims in ${MEMBER_NAMESPACE}`] };
  if (nodeNames.length > 1) return { missing: [`one node that it is attached to (there are ${nodeNames.join(", ")})`] };
  const selectedNode = staying[0]?.claim.metadata.annotations?.[SELECTED_NODE];
  return newLayout({ ...record, nodeName: nodeNames[0] }, staying.map(memberOf), {
    [NEXT_MEMBER_ANNOTATION]: String(found?.nextMember ?? 0),
    ...(selectedNode === undefined ? {} : { [SELECTED_NODE_ANNOTATION]: selectedNode }),
  });
}

/** Without a size: as found on the node, and a filesystem that was there before. One that was refused was never in it, and is not waited for. */
function memberOf({ claim, volume }: FoundMember): MemberSpec {
  const { name, uid, labels } = claim.metadata;
  const refused = volume?.metadata.annotations?.[REFUSED_ANNOTATION];
  return {
    name: labels?.[MEMBER_LABEL] ?? "",
    ...(refused === undefined ? { state: "Present" } : { state: "Spare", refused }),
    source: { claim: { name, ...(uid === undefined ? {} : { uid }) } },
  };
}

/**
 * Its claim is being deleted, but its volume says Retain, which the operator changes to Delete before it deletes a
 * claim. A layout that is made without this member would lack it permanently.
 */
function isDeletedByOthers({ claim, volume }: FoundMember): boolean {
  return claim.metadata.deletionTimestamp !== undefined && isMarked(volume, "Retain");
}

/** In the last step of its teardown: its volume was retained once, and says Delete now. */
function isLeaving({ claim, volume }: FoundMember): boolean {
  return claim.metadata.deletionTimestamp !== undefined || isMarked(volume, "Delete");
}

function isMarked(volume: PersistentVolume | undefined, policy: "Retain" | "Delete"): boolean {
  return volume?.metadata.labels?.[MEMBER_LABEL] !== undefined && volume.spec.persistentVolumeReclaimPolicy === policy;
}

function indexOf({ claim }: FoundMember): number {
  return memberIndex(claim.metadata.labels?.[MEMBER_LABEL] ?? "") ?? 0;
}
