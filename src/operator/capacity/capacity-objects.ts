// What capacities are published from, and the objects that are published (CSIStorageCapacity): their names, what stands in them, and what
// one that is there says. Each change is reported under the node that it is about.

import { createHash } from "node:crypto";
import { NODE_STORAGES } from "../../contracts/kinds/node-storage.ts";
import {
  CSI_NODES,
  CSI_STORAGE_CAPACITIES,
  type CSIStorageCapacity,
  type StorageClass,
} from "../../contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER, TOPOLOGY_NODE } from "../../contracts/names.ts";
import { formatQuantity, readQuantity } from "../../contracts/quantities/quantity.ts";
import { createReflector, type Reflector, reflectorSet } from "../../platform/kube/cache/reflector.ts";
import type { ApplyConfiguration, KubeClient } from "../../platform/kube/client/client.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { WantedCapacity } from "./decide-capacity.ts";

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

/** As upstream's csi-provisioner labels those that it publishes itself. */
const CAPACITY_LABELS = {
  "csi.storage.k8s.io/drivername": LOCAL_DRIVER,
  "csi.storage.k8s.io/managed-by": "tidemark-operator",
} as const;

/** Both fields never change in such an object, so another pair has another name. */
export function capacityName({ storageClassName, nodeName }: WantedCapacity): string {
  const hash = createHash("sha256").update(`${storageClassName}\n${nodeName}`).digest("hex");
  return `tidemark-${hash.slice(0, 32)}`;
}

export function capacityObject(namespace: string, wanted: WantedCapacity): ApplyConfiguration {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: CSI_STORAGE_CAPACITIES.kind,
    metadata: { namespace, name: capacityName(wanted), labels: { ...CAPACITY_LABELS } },
    storageClassName: wanted.storageClassName,
    nodeTopology: { matchLabels: { [TOPOLOGY_NODE]: wanted.nodeName } },
    capacity: formatQuantity(wanted.freeBytes),
    maximumVolumeSize: formatQuantity(wanted.maximumBytes),
  };
}

/** The node that an object of ours is about. */
function nodeOfCapacity({ nodeTopology }: CSIStorageCapacity): string {
  return nodeTopology?.matchLabels?.[TOPOLOGY_NODE] ?? "";
}

/** Whether the object says what is wanted; the API server writes quantities in its own way. */
export function tells(existing: CSIStorageCapacity, wanted: WantedCapacity): boolean {
  const [freeBytes, maximumBytes] = [existing.capacity, existing.maximumVolumeSize].map(readQuantity);
  return isOfPair(existing, wanted) && freeBytes === wanted.freeBytes && maximumBytes === wanted.maximumBytes;
}

/** An object of the name for another pair, which another process made, cannot be changed into ours. */
export function isOfPair(existing: CSIStorageCapacity, { storageClassName, nodeName }: WantedCapacity): boolean {
  const { matchLabels = {}, matchExpressions = [] } = existing.nodeTopology ?? {};
  const isOfNode = nodeOfCapacity(existing) === nodeName && Object.keys(matchLabels).length === 1;
  return existing.storageClassName === storageClassName && isOfNode && matchExpressions.length === 0;
}
