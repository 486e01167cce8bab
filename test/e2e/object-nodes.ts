// Nodes that are objects and nothing else: what kubelet, CSI drivers, our agent and our operator would have written of each. No kubelet
// runs their pods, and no controller takes them for dead, where the cluster's nodeGraceSeconds are long enough.

import { NODE_STORAGES, type NodeStorage } from "../../src/contracts/kinds/node-storage.ts";
import {
  CSI_NODES,
  CSI_STORAGE_CAPACITIES,
  type CSINode,
  type CSIStorageCapacity,
  NODES,
  type Node,
} from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, LOCAL_DRIVER, TOPOLOGY_NODE } from "../../src/contracts/names.ts";
import { formatQuantity } from "../../src/contracts/quantities/quantity.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";

/** Of each node, and the default one there. */
export const OBJECT_DEVICE_CLASS = "ssd";
const AGENT = { fieldManager: "tidemark-agent", force: true } as const;
const OPERATOR = { fieldManager: "tidemark-operator", force: true } as const;
const CONCURRENCY = 16;

export interface ObjectNodes {
  readonly client: KubeClient;
  /** Where capacities are published. */
  readonly namespace: string;
  /** The StorageClass that they are published for. */
  readonly className: string;
  /** Whether capacities are published: each costs the API server as much as the pod's binding, and of some nobody takes notice. */
  readonly publishes: boolean;
}

export async function makeObjectNodes(
  nodes: ObjectNodes,
  freeBytes: ReadonlyMap<string, number>,
  sizeBytes: number,
): Promise<void> {
  await forAll([...freeBytes], async ([name, free]) => {
    const { client } = nodes;
    await client.create("e2e/node", NODES, nodeOf(name));
    await client.create("e2e/csi-node", CSI_NODES, csiNodeOf(name));
    await client.create("e2e/node-storage", NODE_STORAGES, storageOf(name));
    await tellFree(nodes, name, free, sizeBytes);
  });
}

/** As the node's agent does, and the operator after it. */
export async function tellFree(nodes: ObjectNodes, name: string, freeBytes: number, sizeBytes: number): Promise<void> {
  await reportFree(nodes, name, freeBytes, sizeBytes);
  if (nodes.publishes) await publishFree(nodes, name, freeBytes);
}

/** As the node's agent does. */
async function reportFree({ client }: ObjectNodes, name: string, freeBytes: number, sizeBytes: number): Promise<void> {
  const [free, size] = [formatQuantity(freeBytes), formatQuantity(sizeBytes)];
  const deviceClasses = [{ name: OBJECT_DEVICE_CLASS, backend: "lvm", default: true, free, size }];
  const configuration = { ...storageOf(name), status: { deviceClasses } };
  await client.apply("e2e/node-storage-status", NODE_STORAGES, configuration, { ...AGENT, subresource: "status" });
}

/** As the operator does once it has heard of it. */
async function publishFree(
  { client, namespace, className }: ObjectNodes,
  name: string,
  freeBytes: number,
): Promise<void> {
  const capacity: CSIStorageCapacity = {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSIStorageCapacity",
    metadata: { namespace, name },
    storageClassName: className,
    nodeTopology: { matchLabels: { [TOPOLOGY_NODE]: name } },
    capacity: formatQuantity(freeBytes),
    maximumVolumeSize: formatQuantity(freeBytes),
  };
  await client.apply("e2e/capacity", CSI_STORAGE_CAPACITIES, { ...capacity, metadata: { namespace, name } }, OPERATOR);
}

export async function forAll<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
}

function nodeOf(name: string): Node {
  const resources = { cpu: "64", memory: "256Gi", pods: "500", "ephemeral-storage": "100Gi" };
  const at = new Date().toISOString();
  const said = { reason: "KubeletReady", message: "an object", lastHeartbeatTime: at, lastTransitionTime: at };
  const status: NonNullable<Node["status"]> = {
    capacity: resources,
    allocatable: resources,
    conditions: [{ type: "Ready", status: "True", ...said }],
  };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "kubernetes.io/hostname": name, [TOPOLOGY_NODE]: name } },
    status,
  };
}

function csiNodeOf(name: string): CSINode {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSINode",
    metadata: { name },
    spec: { drivers: [{ name: LOCAL_DRIVER, nodeID: name, topologyKeys: [TOPOLOGY_NODE] }] },
  };
}

function storageOf(name: string): NodeStorage & { metadata: { name: string } } {
  return { apiVersion: API_VERSION, kind: "NodeStorage", metadata: { name }, spec: {} };
}
