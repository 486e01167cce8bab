// Stands in for csi-provisioner's other half: a volume whose claim is gone is released, and deleted where its reclaim
// policy says so. A volume that is still claimed is never touched.

import { objectKey } from "../../src/contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
} from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import type { Outcome } from "../../src/platform/kube/queue/work-queue.ts";
import type { ClaimCaches } from "./claim-caches.ts";
import { describeCallError } from "./csi-client.ts";
import type { Provisioning } from "./provisioner.ts";
import { PV_PROTECTION } from "./volume-request.ts";

export async function reclaimVolume(provisioning: Provisioning, volumeName: string): Promise<Outcome> {
  const { client, caches } = provisioning;
  const cached = caches.volumes.store.get(volumeName);
  if (cached?.spec.csi?.driver !== LOCAL_DRIVER || isClaimedAsCached(caches, cached)) return "done";
  const volume = await client.get(PERSISTENT_VOLUMES, { name: volumeName });
  if (volume === undefined || (await isClaimed(provisioning, volume))) return "done";
  if (volume.status?.phase !== "Released")
    await client.mergePatch(
      "provisioner/release-volume",
      PERSISTENT_VOLUMES,
      { name: volumeName },
      { status: { phase: "Released" } },
      "status",
    );
  if (volume.spec.persistentVolumeReclaimPolicy !== "Delete") return "done";
  await deleteVolume(provisioning, volume);
  return "done";
}

/** A claim that is gone already goes from the cache too, and its volume is checked then. */
function isClaimedAsCached({ claims }: ClaimCaches, { spec }: PersistentVolume): boolean {
  const { namespace, name = "", uid } = spec.claimRef ?? {};
  const claim = claims.store.get(objectKey({ namespace, name }));
  return claim !== undefined && claim.metadata.uid === uid;
}

async function isClaimed({ client }: Provisioning, { spec }: PersistentVolume): Promise<boolean> {
  const { namespace, name, uid } = spec.claimRef ?? {};
  if (name === undefined) return false;
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim !== undefined && claim.metadata.uid === uid;
}

async function deleteVolume({ client, controller, events }: Provisioning, volume: PersistentVolume): Promise<void> {
  const { name, uid, finalizers } = volume.metadata;
  await controller.deleteVolume(volume.spec.csi?.volumeHandle ?? "").catch((error: unknown) => {
    events.record(volume, "Warning", "VolumeFailedDelete", describeCallError(error));
    throw new Error(`${name}: ${describeCallError(error)}`, { cause: error });
  });
  await client.mergePatch(
    "provisioner/unprotect-volume",
    PERSISTENT_VOLUMES,
    { name },
    { metadata: { uid, finalizers: (finalizers ?? []).filter((finalizer) => finalizer !== PV_PROTECTION) } },
  );
  await client.delete("provisioner/delete-persistent-volume", PERSISTENT_VOLUMES, { name }, { uid });
}
