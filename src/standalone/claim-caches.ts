// What the stand-ins watch: claims, their classes, their volumes.
import type { KubeClient } from "../kube/client.ts";
import { createReflector, type Reflector } from "../kube/reflector.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../kube/resources.ts";
import type { Logger } from "../process/log.ts";

export interface ClaimCaches {
  readonly claims: Reflector<PersistentVolumeClaim>;
  readonly volumes: Reflector<PersistentVolume>;
  readonly classes: Reflector<StorageClass>;
  readonly synced: Promise<void>;
  start(): void;
  stop(): Promise<void>;
}

export function createClaimCaches(client: KubeClient, log: Logger): ClaimCaches {
  const claims = createReflector({ client, resource: PERSISTENT_VOLUME_CLAIMS, log });
  const volumes = createReflector({ client, resource: PERSISTENT_VOLUMES, log });
  const classes = createReflector({ client, resource: STORAGE_CLASSES, log });
  const all = [claims, volumes, classes];
  return {
    claims,
    volumes,
    classes,
    synced: Promise.all(all.map(({ synced }) => synced)).then(() => undefined),
    start: () => {
      for (const reflector of all) reflector.start();
    },
    stop: async () => {
      await Promise.all(all.map((reflector) => reflector.stop()));
    },
  };
}

/** The volume that a claim is bound to; undefined while it is not bound both ways. */
export function boundVolume(caches: ClaimCaches, claim: PersistentVolumeClaim): PersistentVolume | undefined {
  const volume = caches.volumes.store.get(claim.spec.volumeName ?? "");
  const isBound = claim.status?.phase === "Bound" && volume?.spec.claimRef?.uid === claim.metadata.uid;
  return isBound ? volume : undefined;
}
