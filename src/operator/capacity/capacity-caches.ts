// What capacities are published from, and what is published: each change is told by the node that it is about.
import { NODE_STORAGES } from "../../api/node-storage.ts";
import { createReflector, type Reflector } from "../../kube/cache/reflector.ts";
import { reflectorSet } from "../../kube/cache/reflector-set.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES, CSI_STORAGE_CAPACITIES, type StorageClass } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { CAPACITY_LABELS, nodeOfCapacity } from "./capacity-object.ts";

export type CapacityCaches = ReturnType<typeof createCapacityCaches>;

/** `namespace`: where the objects are. */
export function createCapacityCaches(
  client: KubeClient,
  storageClasses: Reflector<StorageClass>,
  namespace: string,
  log: Logger,
) {
  const storages = createReflector({ client, resource: NODE_STORAGES, log });
  const csiNodes = createReflector({ client, resource: CSI_NODES, log });
  const labelSelector = Object.entries(CAPACITY_LABELS)
    .map(([label, value]) => `${label}=${value}`)
    .join(",");
  const capacities = createReflector({
    client,
    resource: CSI_STORAGE_CAPACITIES,
    log,
    select: { namespace, labelSelector },
    indexes: { node: (capacity) => [nodeOfCapacity(capacity)] },
  });
  const own = reflectorSet([storages, csiNodes, capacities]);
  return {
    storages,
    csiNodes,
    capacities,
    storageClasses,
    ...own,
    synced: Promise.all([own.synced, storageClasses.synced]).then(() => undefined),
    nodeNames: () =>
      new Set([
        ...csiNodes.store.list().map(({ metadata }) => metadata.name),
        ...capacities.store.list().map(nodeOfCapacity),
      ]),
    onChange: (changed: (nodeName: string) => void, allChanged: () => void): void => {
      const ofNamed = ({ metadata }: { metadata: { name: string } }): void => changed(metadata.name);
      for (const each of [storages, csiNodes]) each.subscribe({ added: ofNamed, updated: ofNamed, deleted: ofNamed });
      const ofCapacity = (capacity: Parameters<typeof nodeOfCapacity>[0]): void => changed(nodeOfCapacity(capacity));
      capacities.subscribe({ added: ofCapacity, updated: ofCapacity, deleted: ofCapacity });
      storageClasses.subscribe({ added: allChanged, updated: allChanged, deleted: allChanged });
    },
  };
}
