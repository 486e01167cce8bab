// Recreates what a user has deleted of a volume: its layout, its Filesystem, its members' claims. What the caches show as lost is read from
// the API server first, since a lagging cache proves no loss; what is recreated is decided in decide-rebuild.ts.
import { volumeUIDOf } from "../../contracts/identity.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, RECORDS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { decideRebuild, looksLost, needsMembers } from "../decide/decide-rebuild.ts";
import type { MemberReport } from "../decide/decide-status.ts";
import { gatherLiveFacts, type LiveVolumeFacts, type VolumeFacts } from "../gather/gather-volume.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { labelledHandle, memberClaim, memberClaimName } from "../volumes/member-objects.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { placeClaim } from "./member-steps.ts";
import { type LayoutWriter, makeLayout, readLayout, writeFilesystem } from "./volume-objects.ts";

export interface Rebuilding extends Placing {
  readonly layouts: LayoutWriter;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
}

/** The facts as they are then, and what the record lacks. */
interface Rebuilt {
  readonly facts: VolumeFacts;
  readonly missing: readonly string[];
  /** Why its members have no claims; then nothing is made of those that do. */
  readonly unsafe?: MemberReport;
}

/** Idempotent. Throws KubeError. */
export async function rebuildVolume(rebuilding: Rebuilding, cached: VolumeFacts): Promise<Rebuilt> {
  if (!looksLost(cached)) return { facts: cached, missing: [] };
  const { client } = rebuilding;
  const live = await gatherLiveFacts(client, cached);
  if (!needsMembers(live)) return recreate(rebuilding, live);
  try {
    const made = await restoreClaims(rebuilding, cached.handle);
    return await recreate(rebuilding, made.length === 0 ? live : await gatherLiveFacts(client, cached));
  } catch (error) {
    if (!(error instanceof UnsafeHomeError)) throw error;
    const problem = { reason: "MemberFailed" as const, message: error.message };
    return { facts: live, missing: [], unsafe: { waiting: [], problem, spare: undefined } };
  }
}

async function recreate({ client, events, metrics, layouts }: Rebuilding, live: LiveVolumeFacts): Promise<Rebuilt> {
  const plan = decideRebuild(live);
  if (plan === undefined) return { facts: live, missing: [] };
  const { handle, persistentVolume } = live;
  const { claimRef } = plan;
  const moved =
    claimRef && live.layout ? await layouts.update("rebuild/claim", live.layout, () => ({ claimRef })) : live.layout;
  const made = plan.layout && (await makeLayout(client, "rebuild/layout", plan.layout));
  const layout = made ?? (plan.layout ? await readLayout(client, handle) : moved);
  const filesystem = plan.filesystemOf ? await writeFilesystem(client, plan.filesystemOf, true) : live.filesystem;
  const kinds = [...(made ? ["FilesystemLayout" as const] : []), ...(plan.filesystemOf ? ["Filesystem" as const] : [])];
  for (const kind of kinds) metrics.rebuilt(kind);
  if (kinds.length > 0 && filesystem !== undefined) {
    const from = `PersistentVolume ${persistentVolume?.metadata.name}`;
    const message = `Rebuilt the deleted ${kinds.join(" and ")} of volume ${handle} from ${from}`;
    events.record(filesystem, "Normal", "Rebuilt", message);
  }
  return { facts: { ...live, layout, filesystem }, missing: plan.missing };
}

/**
 * Recreates claims of members that were deleted, with their namespace or by themselves, for the PersistentVolumes that are retained for them.
 * No volume is ever made here. Names of the claims that it made. Idempotent; a volume that was released (Delete) stays as it is. First the volume
 * forgets the UID of the deleted claim. From then on it waits for a claim of that name, and nothing else is bound to
 * it. So it must not be where another user could make a claim of that name. Throws KubeError, and UnsafeHomeError.
 */
export async function restoreClaims(placing: Placing, handle: string): Promise<string[]> {
  const { client, home } = placing;
  const volumeUID = volumeUIDOf(handle) ?? "";
  const { items } = await client.list(PERSISTENT_VOLUMES, { labelSelector: `${RECORDS.volumeUID}=${volumeUID}` });
  const made: string[] = [];
  for (const volume of items.filter((one) => labelledHandle(one) === handle && isKept(one))) {
    const member = volume.metadata.labels?.[MEMBER_LABEL] ?? "";
    const claimName = memberClaimName(handle, member);
    const { namespace, name, uid } = volume.spec.claimRef ?? {};
    if (namespace !== claimName.namespace || name !== claimName.name) continue;
    if ((await client.get(PERSISTENT_VOLUME_CLAIMS, claimName)) !== undefined) continue;
    const problem = await home.problem();
    if (problem !== undefined) throw new UnsafeHomeError(problem);
    if (uid !== undefined) await forgetClaim(client, volume);
    await placeClaim(placing, claimOf(handle, volumeUID, member, volume));
    made.push(claimName.name);
  }
  return made;
}

function isKept({ metadata, spec }: PersistentVolume): boolean {
  return metadata.deletionTimestamp === undefined && spec.persistentVolumeReclaimPolicy === "Retain";
}

async function forgetClaim(client: KubeClient, { metadata }: PersistentVolume): Promise<void> {
  const { name, uid, resourceVersion } = metadata;
  const patch = { metadata: { uid, resourceVersion }, spec: { claimRef: { uid: null, resourceVersion: null } } };
  await client.mergePatch("rebuild/free-volume", PERSISTENT_VOLUMES, { name }, patch);
}

/** Bound by name: no provisioner makes a volume for it. */
function claimOf(handle: string, volumeUID: string, member: string, { metadata, spec }: PersistentVolume) {
  const className = spec.storageClassName ?? "";
  const claim = memberClaim(
    { handle, volumeUID, className, selectedNode: undefined },
    { name: member, size: spec.capacity?.storage },
  );
  return { ...claim, spec: { ...claim.spec, volumeName: metadata.name } };
}
