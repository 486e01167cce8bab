// Stands in for csi-provisioner and the binder: a pending claim of our class gets a volume, a PersistentVolume, and is
// bound to it. Nothing but the CSI call knows what a volume is.

import { objectKey, parseObjectKey } from "../../src/contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { EventRecorder } from "../../src/platform/kube/events/events.ts";
import { isKubeError } from "../../src/platform/kube/kube-error.ts";
import type { Outcome } from "../../src/platform/kube/queue/work-queue.ts";
import type { ClaimCaches } from "./claim-caches.ts";
import { type ControllerPort, describeCallError } from "./csi-client.ts";
import { createVolumeRequest, persistentVolumeOf, volumeNameOf } from "./volume-request.ts";

export interface Provisioning {
  readonly client: KubeClient;
  readonly caches: ClaimCaches;
  readonly controller: ControllerPort;
  readonly events: EventRecorder;
  readonly nodeName: string;
}

export async function provisionClaim(provisioning: Provisioning, key: string): Promise<Outcome> {
  const { client, caches } = provisioning;
  const cached = caches.claims.store.get(key);
  const storageClass = cached && classOf(provisioning, cached);
  if (cached === undefined || storageClass === undefined || isSettled(cached)) return "done";
  // Read again: the cache may still show a claim that is gone, and its volume would have no owner.
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, parseObjectKey(key));
  if (claim === undefined || claim.metadata.uid !== cached.metadata.uid || isSettled(claim)) return "done";
  const volume =
    (await client.get(PERSISTENT_VOLUMES, { name: volumeNameOf(claim) })) ??
    (await provision(provisioning, claim, storageClass));
  await bind(client, claim, volume);
  return "done";
}

function isSettled({ metadata, status }: PersistentVolumeClaim): boolean {
  return metadata.deletionTimestamp !== undefined || status?.phase === "Bound";
}

/** The claim's class when it is one of ours; an Event on the claim names a class that does not exist. */
function classOf({ caches, events }: Provisioning, claim: PersistentVolumeClaim): StorageClass | undefined {
  const name = claim.spec.storageClassName;
  const storageClass = caches.classes.store.get(name ?? "");
  if (storageClass === undefined && !isSettled(claim))
    events.record(
      claim,
      "Warning",
      "ProvisioningFailed",
      name === undefined ? "the claim names no storageClassName" : `storageclass.storage.k8s.io "${name}" not found`,
    );
  return storageClass?.provisioner === LOCAL_DRIVER ? storageClass : undefined;
}

async function provision(
  { client, controller, events, nodeName }: Provisioning,
  claim: PersistentVolumeClaim,
  storageClass: StorageClass,
): Promise<PersistentVolume> {
  const request = createVolumeRequest(claim, storageClass, nodeName);
  const response = await controller.createVolume(request).catch((error: unknown) => {
    const cause = describeCallError(error);
    const message = `failed to provision volume with StorageClass "${storageClass.metadata.name}": ${cause}`;
    events.record(claim, "Warning", "ProvisioningFailed", message);
    throw new Error(`${objectKey(claim.metadata)}: ${message}`, { cause: error });
  });
  const volume = persistentVolumeOf(claim, storageClass, response);
  try {
    await client.create("provisioner/create-persistent-volume", PERSISTENT_VOLUMES, volume);
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
  }
  events.record(claim, "Normal", "ProvisioningSucceeded", `Successfully provisioned volume ${volume.metadata.name}`);
  return volume;
}

/** The volume first: a claim that is Bound must find its volume Bound. */
async function bind(client: KubeClient, claim: PersistentVolumeClaim, volume: PersistentVolume): Promise<void> {
  const volumeName = volume.metadata.name;
  const name = { namespace: claim.metadata.namespace, name: claim.metadata.name };
  const bound = { status: { phase: "Bound" } };
  await client.mergePatch("provisioner/bind-volume", PERSISTENT_VOLUMES, { name: volumeName }, bound, "status");
  await client.mergePatch("provisioner/bind-claim", PERSISTENT_VOLUME_CLAIMS, name, {
    metadata: { uid: claim.metadata.uid, annotations: { "pv.kubernetes.io/bind-completed": "yes" } },
    spec: { volumeName },
  });
  const status = { phase: "Bound", accessModes: volume.spec.accessModes, capacity: volume.spec.capacity };
  await client.mergePatch("provisioner/claim-status", PERSISTENT_VOLUME_CLAIMS, name, { status }, "status");
}
