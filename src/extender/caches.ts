// The extender's view of the API server: one reflector per kind it reads, begun one after another, so that no two first lists are in
// memory at once.
import { FILESYSTEM_LAYOUTS } from "../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../api/logical-volume.ts";
import { NODE_STORAGES } from "../api/node-storage.ts";
import type { KubeClient } from "../kube/client.ts";
import type { KubeObject } from "../kube/object.ts";
import { createReflector, type Reflector } from "../kube/reflector.ts";
import {
  CSI_NODES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  PODS,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
} from "../kube/resources.ts";
import type { Logger } from "../process/log.ts";
import { CLUSTER_INDEXES, type ClusterStores, type KindsRead } from "./cluster-stores.ts";
import type { ClusterView } from "./cluster-view.ts";
import { createKeeping } from "./kept-fields.ts";

export function createCaches(client: KubeClient, log: Logger) {
  const keep = createKeeping();
  const { claims, attachments, layouts, pods } = CLUSTER_INDEXES;
  // In this order: a report of a node that is listed after its volumes shows them.
  const reflectors: { readonly [K in keyof KindsRead]: Reflector<KindsRead[K]> } = {
    storageClasses: createReflector({ client, resource: STORAGE_CLASSES, log, keep: keep.storageClasses }),
    nodes: createReflector({ client, resource: NODES, log, keep: keep.nodes }),
    csiNodes: createReflector({ client, resource: CSI_NODES, log, keep: keep.csiNodes }),
    volumes: createReflector({ client, resource: PERSISTENT_VOLUMES, log, keep: keep.volumes }),
    claims: createReflector({ client, resource: PERSISTENT_VOLUME_CLAIMS, log, keep: keep.claims, indexes: claims }),
    attachments: createReflector({
      client,
      resource: VOLUME_ATTACHMENTS,
      log,
      keep: keep.attachments,
      indexes: attachments,
    }),
    layouts: createReflector({ client, resource: FILESYSTEM_LAYOUTS, log, keep: keep.layouts, indexes: layouts }),
    logicalVolumes: createReflector({ client, resource: LOGICAL_VOLUMES, log, keep: keep.logicalVolumes }),
    pods: createReflector({ client, resource: PODS, log, keep: keep.pods, indexes: pods }),
    nodeStorages: createReflector({ client, resource: NODE_STORAGES, log, keep: keep.nodeStorages }),
  };
  const all = Object.values(reflectors);
  const started: { stop(): Promise<void> }[] = [];
  return {
    stores: Object.fromEntries(
      Object.entries(reflectors).map(([kind, { store }]) => [kind, store]),
    ) as unknown as ClusterStores,
    /** Resolves when each kind is there, and has been told to the view. */
    start: async (view: ClusterView): Promise<void> => {
      for (const [kind, reflector] of Object.entries(reflectors)) tell(kind as keyof KindsRead, reflector, view);
      for (const reflector of all) {
        started.push(reflector);
        reflector.start();
        await reflector.synced;
      }
    },
    stop: async (): Promise<void> => {
      await Promise.all(started.map((reflector) => reflector.stop()));
    },
  };
}

function tell<K extends keyof KindsRead>(kind: K, reflector: unknown, view: ClusterView): void {
  const changed = (object: KubeObject): void => view.changed(kind, object as KindsRead[K]);
  (reflector as Reflector<KindsRead[K]>).subscribe({
    added: changed,
    updated: (object, before) => view.changed(kind, object, before),
    deleted: changed,
  });
}
