// What to make again when somebody has deleted an object of a volume whose claim is still bound. Pure. Nothing is guessed:
// the size is whatever is found on the node, and an incomplete record stalls.
import type { ApplyConfiguration } from "../../kube/client.ts";
import type { PersistentVolume } from "../../kube/resources.ts";
import { rebuiltSpan } from "../member/rebuild-span.ts";
import type { LiveVolumeFacts, VolumeFacts } from "./gather.ts";
import { loopMember, newLayout } from "./layout-fields.ts";
import {
  type ClaimIdentity,
  claimIdentityOf,
  type IncompleteRecord,
  isIncomplete,
  recordOfPersistentVolume,
} from "./volume-record.ts";

export interface RebuildPlan {
  readonly layout: ApplyConfiguration | undefined;
  /** The claim whose Filesystem is to be made again. */
  readonly filesystemOf: ClaimIdentity | undefined;
  /** What its records lack, where the layout is needed and cannot be made. */
  readonly missing: readonly string[];
}

/** Whether the caches show a loss that is worth a look at the API server. */
export function looksLost({ layout, filesystem, persistentVolume }: VolumeFacts): boolean {
  const phase = persistentVolume?.status?.phase;
  const isComplete = layout !== undefined && filesystem !== undefined;
  return (!isComplete && phase === "Bound") || (layout === undefined && phase === "Released");
}

/** Undefined: nothing was lost, or the volume is on its way out. */
export function decideRebuild(facts: LiveVolumeFacts): RebuildPlan | undefined {
  const { persistentVolume, layout, filesystem } = facts;
  if (persistentVolume === undefined || !looksLost(facts)) return undefined;
  const isBound = persistentVolume.status?.phase === "Bound" && isBoundBack(facts);
  const identity = claimIdentityOf(persistentVolume);
  if (identity === undefined || !(isBound || isStillAttached(facts))) return undefined;
  const rebuilt = layout === undefined ? rebuiltLayout(persistentVolume, facts) : undefined;
  const lacking = rebuilt !== undefined && isIncomplete(rebuilt) ? rebuilt : undefined;
  return {
    layout: rebuilt !== undefined && !isIncomplete(rebuilt) ? rebuilt : undefined,
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
  return newLayout(record, [loopMember(record.handle, undefined, "Present")]);
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
