// What to make again when somebody has deleted an object of a volume whose claim is still bound. Pure. Nothing is guessed:
// the size is whatever is found on the node, and an incomplete record stalls.
import type { ApplyConfiguration } from "../../kube/client.ts";
import type { LiveVolumeFacts, VolumeFacts } from "./gather.ts";
import { newLayout } from "./layout-fields.ts";
import { type ClaimIdentity, claimIdentityOf, isIncomplete, recordOfPersistentVolume } from "./volume-record.ts";

export interface RebuildPlan {
  readonly layout: ApplyConfiguration | undefined;
  /** The claim whose Filesystem is to be made again. */
  readonly filesystemOf: ClaimIdentity | undefined;
  /** Fields that the PersistentVolume lacks, where the layout is needed and cannot be made. */
  readonly missing: readonly string[];
}

/** Whether the caches show a loss that is worth a look at the API server. */
export function looksLost({ layout, filesystem, persistentVolume }: VolumeFacts): boolean {
  const isComplete = layout !== undefined && filesystem !== undefined;
  return !isComplete && persistentVolume?.status?.phase === "Bound";
}

/** Undefined: nothing was lost, or the volume is on its way out. */
export function decideRebuild(facts: LiveVolumeFacts): RebuildPlan | undefined {
  const { persistentVolume, layout, filesystem } = facts;
  if (persistentVolume === undefined || !looksLost(facts) || !isBoundBack(facts)) return undefined;
  const identity = claimIdentityOf(persistentVolume);
  if (identity === undefined) return undefined;
  const record = recordOfPersistentVolume(persistentVolume);
  const missing = layout === undefined && isIncomplete(record) ? record.missing : [];
  return {
    layout: layout === undefined && !isIncomplete(record) ? newLayout(record, undefined, "Present") : undefined,
    filesystemOf: filesystem === undefined ? identity : undefined,
    missing,
  };
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
