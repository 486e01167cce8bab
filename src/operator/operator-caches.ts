// What each replica of the operator knows of the cluster: its caches, begun and stopped together.
import type { Pod } from "../contracts/kubernetes/resources.ts";
import type { Reflector } from "../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../platform/kube/client/client.ts";
import type { Logger } from "../platform/process/log.ts";
import type { Stoppable } from "../platform/process/shutdown.ts";
import { type CapacityCaches, createCapacityCaches } from "./capacity/capacity-objects.ts";
import { type ClaimCaches, createClaimCaches } from "./claim/claim-caches.ts";
import { createWaitingPods } from "./consolidation/consolidation-sight.ts";
import { createVolumeCaches, type VolumeCaches } from "./gather/volume-caches.ts";

export interface OperatorCaches {
  readonly volumes: VolumeCaches;
  readonly claims: ClaimCaches;
  readonly capacities: CapacityCaches;
  readonly waitingPods: Reflector<Pod>;
  /** Resolves when this replica can serve: that does not wait for pods that wait. */
  readonly synced: Promise<void>;
  start(): void;
  readonly parts: readonly Stoppable[];
}

/** `namespace`: where the published capacities are. */
export function createOperatorCaches(client: KubeClient, namespace: string, log: Logger): OperatorCaches {
  const volumes = createVolumeCaches(client, log);
  const claims = createClaimCaches(client, volumes, log);
  const capacities = createCapacityCaches(client, claims.storageClasses, namespace, log);
  const waitingPods = createWaitingPods(client, log);
  const all = [
    { name: "caches", cache: volumes },
    { name: "caches of claims", cache: claims },
    { name: "caches of capacities", cache: capacities },
    { name: "cache of waiting pods", cache: waitingPods },
  ];
  return {
    volumes,
    claims,
    capacities,
    waitingPods,
    synced: Promise.all([volumes.synced, claims.synced, capacities.synced]).then(() => undefined),
    start: () => {
      for (const { cache } of all) cache.start();
    },
    parts: all.map(({ name, cache }) => ({ name, stop: () => cache.stop() })),
  };
}
