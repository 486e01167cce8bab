// What the stand-ins watch: claims, their classes, their volumes.

import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";
import {
  createReflector,
  type Reflector,
  type ReflectorSet,
  reflectorSet,
} from "../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import type { Logger } from "../../src/platform/process/log.ts";

export interface ClaimCaches extends ReflectorSet {
  readonly claims: Reflector<PersistentVolumeClaim>;
  readonly volumes: Reflector<PersistentVolume>;
  readonly classes: Reflector<StorageClass>;
}

export function createClaimCaches(client: KubeClient, log: Logger): ClaimCaches {
  const claims = createReflector({ client, resource: PERSISTENT_VOLUME_CLAIMS, log });
  const volumes = createReflector({ client, resource: PERSISTENT_VOLUMES, log });
  const classes = createReflector({ client, resource: STORAGE_CLASSES, log });
  return { claims, volumes, classes, ...reflectorSet([claims, volumes, classes]) };
}

/** The volume of ours that a claim is bound to; undefined while it is not bound both ways, and for another driver's. */
export function boundVolume(caches: ClaimCaches, claim: PersistentVolumeClaim): PersistentVolume | undefined {
  const volume = caches.volumes.store.get(claim.spec.volumeName ?? "");
  const isBound = claim.status?.phase === "Bound" && volume?.spec.claimRef?.uid === claim.metadata.uid;
  return isBound && volume?.spec.csi?.driver === LOCAL_DRIVER ? volume : undefined;
}
