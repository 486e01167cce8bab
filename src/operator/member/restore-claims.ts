// The claims of members that somebody has deleted, with their namespace or by themselves, while nobody tended the volume: their
// PersistentVolumes are kept and say whose they were. Each gets its claim again; no volume is ever made here.
import { volumeUIDOf } from "../../api/identity.ts";
import { MEMBER_LABEL, RECORDS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, type PersistentVolume } from "../../kube/resources.ts";
import { memberClaim } from "./member-claim.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { labelledHandle, memberClaimName } from "./member-names.ts";
import { placeClaim } from "./member-steps.ts";

/**
 * Names of the claims that it made. Idempotent; a volume that was let go of (Delete) stays as it is. First the volume forgets the UID
 * of the claim that is gone, and waits for one of that name from then on: nothing else is bound to it. So it must not be where somebody
 * else could make one of that name. Throws KubeError, and UnsafeHomeError.
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
