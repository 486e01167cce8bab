// What the scheduler is told that one node can still take, for each StorageClass of local.tidemark.dev: the CSIStorageCapacity objects
// that there shall be. Pure. A class whose parameters are refused, and a node that has reported nothing, have none.
import { createHash } from "node:crypto";
import { LOCAL_DRIVER, TOPOLOGY_NODE } from "../../api/names.ts";
import type { NodeStorage } from "../../api/node-storage.ts";
import { LOCAL } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { ApplyConfiguration } from "../../kube/client.ts";
import { CSI_STORAGE_CAPACITIES, type CSIStorageCapacity, type StorageClass } from "../../kube/resources.ts";
import { formatQuantity, readQuantity } from "../../units/quantity.ts";
import { freeBytesOf } from "../csi/node-room.ts";
import { parseClassParameters } from "../csi/volume-parameters.ts";
import { largestRequestBytes } from "../csi/volume-size.ts";

export interface WantedCapacity {
  readonly name: string;
  readonly storageClassName: string;
  readonly nodeName: string;
  /** What new members can have. */
  readonly freeBytes: number;
  /** The largest request that can be met. */
  readonly maximumBytes: number;
}

/** As upstream's csi-provisioner labels those that it publishes itself. */
export const CAPACITY_LABELS = {
  "csi.storage.k8s.io/drivername": LOCAL_DRIVER,
  "csi.storage.k8s.io/managed-by": "tidemark-operator",
} as const;

export function wantedCapacities(
  classes: readonly StorageClass[],
  nodeName: string,
  storage: NodeStorage | undefined,
): WantedCapacity[] {
  return classes
    .filter(({ provisioner }) => provisioner === LOCAL_DRIVER)
    .flatMap((storageClass) => capacityOf(storageClass, nodeName, storage) ?? []);
}

function capacityOf(
  { metadata: { name: storageClassName }, parameters = {} }: StorageClass,
  nodeName: string,
  storage: NodeStorage | undefined,
): WantedCapacity | undefined {
  const ofClass = parseClassParameters(parameters, LOCAL);
  if (ofClass instanceof Refusal || ofClass.backend === undefined) return undefined;
  const { backend, deviceClass } = ofClass;
  const freeBytes = freeBytesOf(storage, { backend, deviceClass });
  if (freeBytes === undefined) return undefined;
  const name = nameOf(storageClassName, nodeName);
  return { name, storageClassName, nodeName, freeBytes, maximumBytes: largestRequestBytes(freeBytes, ofClass) };
}

/** Both fields never change in such an object, so another pair has another name. */
function nameOf(storageClassName: string, nodeName: string): string {
  const hash = createHash("sha256").update(`${storageClassName}\n${nodeName}`).digest("hex");
  return `tidemark-${hash.slice(0, 32)}`;
}

export function capacityObject(namespace: string, wanted: WantedCapacity): ApplyConfiguration {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: CSI_STORAGE_CAPACITIES.kind,
    metadata: { namespace, name: wanted.name, labels: { ...CAPACITY_LABELS } },
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
