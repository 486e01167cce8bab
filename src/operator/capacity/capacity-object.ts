// A CSIStorageCapacity of ours: its name, what stands in it, and what one that is there says.
import { createHash } from "node:crypto";
import { LOCAL_DRIVER, TOPOLOGY_NODE } from "../../api/names.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import { CSI_STORAGE_CAPACITIES, type CSIStorageCapacity } from "../../kube/resources.ts";
import { formatQuantity, readQuantity } from "../../units/quantity.ts";
import type { WantedCapacity } from "./decide-capacity.ts";

/** As upstream's csi-provisioner labels those that it publishes itself. */
export const CAPACITY_LABELS = {
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

/** The node that an object of ours tells of. */
export function nodeOfCapacity({ nodeTopology }: CSIStorageCapacity): string {
  return nodeTopology?.matchLabels?.[TOPOLOGY_NODE] ?? "";
}

/** Whether the object tells what is wanted; the API server writes quantities in its own way. */
export function tells(existing: CSIStorageCapacity, wanted: WantedCapacity): boolean {
  const [freeBytes, maximumBytes] = [existing.capacity, existing.maximumVolumeSize].map(readQuantity);
  return isOfPair(existing, wanted) && freeBytes === wanted.freeBytes && maximumBytes === wanted.maximumBytes;
}

/** An object of the name for another pair, which somebody else made, cannot be changed into ours. */
export function isOfPair(existing: CSIStorageCapacity, { storageClassName, nodeName }: WantedCapacity): boolean {
  const { matchLabels = {}, matchExpressions = [] } = existing.nodeTopology ?? {};
  const isOfNode = nodeOfCapacity(existing) === nodeName && Object.keys(matchLabels).length === 1;
  return existing.storageClassName === storageClassName && isOfNode && matchExpressions.length === 0;
}
