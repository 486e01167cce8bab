// What to make again when somebody has deleted an object of a volume whose claim is still bound. Pure. Nothing is guessed:
// the size is whatever is found on the node, and an incomplete record stalls.
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import type { PersistentVolume } from "../../kube/resources.ts";
import { rebuiltSpan } from "../member/rebuild-span.ts";
import type { LiveVolumeFacts, VolumeFacts } from "./gather.ts";
import { newLayout, recordedMember } from "./layout-fields.ts";
import {
  type ClaimIdentity,
  claimIdentityOf,
  type IncompleteRecord,
  isIncomplete,
  recordOfPersistentVolume,
} from "./volume-record.ts";

export interface RebuildPlan {
  readonly layout: ApplyConfiguration | undefined;
  /** The claim that has the volume now, where the layout still names one that is gone. */
  readonly claimRef: ClaimIdentity | undefined;
  /** The claim whose Filesystem is to be made again. */
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

/** Whether the layout of a span is to be made again, for which its members' claims have to be there. */
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
 * A volume that was kept when its claim was deleted (Retain) is bound to a new one. PersistentVolumes are written by people, too:
 * while the former claim is there, or two of them name the volume, it stays whose it was.
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

/** Whatever became of its claim: only its node can say that it has let go of it, and says so on a layout. */
function isStillAttached({ layout, members }: LiveVolumeFacts): boolean {
  return layout === undefined && (members?.nodeNames.length ?? 0) > 0;
}
