// The extender's view of the API server: one reflector per kind it reads, begun one after another, so that no two first lists are in
// memory at once; and what it stores of each object, since it holds all volumes of the cluster and reads few of their fields. What many
// objects have in common (the texts of node, class and driver, the term of a node) is stored once. An absent field is undefined: a spread
// makes an object larger.

import type { NodeStorage } from "../../contracts/kinds/node-storage.ts";
import type { KubeObject } from "../../contracts/kubernetes/object.ts";
import type { CSINode, Node, Pod, StorageClass } from "../../contracts/kubernetes/resources.ts";
import { createReflector, type Reflector } from "../../platform/kube/cache/reflector.ts";
import type { Keep, KubeClient } from "../../platform/kube/client/client.ts";
import type { Logger } from "../../platform/process/log.ts";
import { claimsOf, cordonTolerations } from "../decide/decide-demand.ts";
import type { AskedPods } from "./asked-pods.ts";
import { type ClusterStores, indexesOf, isAgent, KINDS_READ, type KindsRead, RESOURCES } from "./cluster-stores.ts";
import type { ClusterView } from "./cluster-view.ts";
import {
  agedMeta,
  createOnce,
  type Once,
  projectedAttachment,
  projectedClaim,
  projectedLabels,
  projectedLayout,
  projectedLogicalVolume,
  projectedMeta,
  projectedVolume,
} from "./projected-volume.ts";

export function createCaches(client: KubeClient, log: Logger) {
  const keep = createProjections();
  const reflectorOf = <K extends keyof KindsRead>(kind: K): Reflector<KindsRead[K]> =>
    createReflector({ client, resource: RESOURCES[kind], log, keep: keep[kind], indexes: indexesOf(kind) });
  const podReflector = reflectorOf("pods");
  const reflectors = KINDS_READ.map((kind) => [kind, kind === "pods" ? podReflector : reflectorOf(kind)] as const);
  const started: { stop(): Promise<void> }[] = [];
  return {
    stores: Object.fromEntries(reflectors.map(([kind, { store }]) => [kind, store])) as unknown as ClusterStores,
    /** Resolves when each kind is there, and the view has heard of it. */
    start: async (view: ClusterView, { changed }: Pick<AskedPods, "changed">): Promise<void> => {
      for (const [kind, reflector] of reflectors) tell(kind, reflector, view);
      podReflector.subscribe({ added: changed, updated: changed, deleted: changed });
      for (const [, reflector] of reflectors) {
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

type Projections = { readonly [K in keyof ClusterStores]: Keep<KindsRead[K]> };

export function createProjections(): Projections {
  const once = createOnce();
  return {
    nodes: (node) => projectedNode(node, once),
    nodeStorages: (storage) => projectedNodeStorage(storage, once),
    csiNodes: (csiNode) => projectedCSINode(csiNode, once),
    storageClasses: (storageClass) => projectedStorageClass(storageClass, once),
    claims: (claim) => projectedClaim(claim, once),
    volumes: (volume) => projectedVolume(volume, once),
    attachments: (attachment) => projectedAttachment(attachment, once),
    layouts: (layout) => projectedLayout(layout, once),
    logicalVolumes: (logicalVolume) => projectedLogicalVolume(logicalVolume, once),
    pods: (pod) => projectedPod(pod, once),
  };
}

function projectedNode({ apiVersion, kind, metadata, spec }: Node, once: Once): Node {
  return {
    apiVersion,
    kind,
    metadata: { ...projectedMeta(metadata, once), labels: projectedLabels(metadata.labels, once) },
    spec: once.shape({ unschedulable: spec?.unschedulable }),
  };
}

function projectedNodeStorage({ apiVersion, metadata, status }: NodeStorage, once: Once): NodeStorage {
  return { apiVersion, kind: "NodeStorage", metadata: projectedMeta(metadata, once), status };
}

function projectedCSINode({ apiVersion, kind, metadata, spec }: CSINode, once: Once): CSINode {
  return {
    apiVersion,
    kind,
    metadata: projectedMeta(metadata, once),
    spec: {
      drivers: once.shape(spec.drivers.map(({ name, allocatable }) => ({ name, nodeID: "", allocatable }))),
    },
  };
}

function projectedStorageClass(
  { apiVersion, kind, metadata, provisioner, parameters }: StorageClass,
  once: Once,
): StorageClass {
  return { apiVersion, kind, metadata: projectedMeta(metadata, once), provisioner, parameters };
}

/** Agents, and those that have claims. */
function projectedPod(pod: Pod, once: Once): Pod | undefined {
  const isOfAgent = isAgent(pod);
  if (!isOfAgent && claimsOf(pod).length === 0) return undefined;
  const { apiVersion, kind, metadata, spec, status } = pod;
  return {
    apiVersion,
    kind,
    metadata: isOfAgent
      ? { ...agedMeta(metadata, once), labels: projectedLabels(metadata.labels, once) }
      : projectedMeta(metadata, once),
    spec: {
      nodeName: once.text(spec.nodeName),
      containers: NO_CONTAINERS,
      volumes: projectedVolumes(spec.volumes, once),
      tolerations: projectedTolerations(spec.tolerations, once),
    },
    status: once.shape({
      phase: status?.phase,
      nominatedNodeName: status?.nominatedNodeName,
      conditions: isOfAgent ? status?.conditions?.filter(({ type }) => type === "Ready") : undefined,
    }),
  };
}

/** Those that placement reads, which few pods have. */
function projectedTolerations(tolerations: Pod["spec"]["tolerations"], once: Once): Pod["spec"]["tolerations"] {
  const looked = cordonTolerations(tolerations ?? []);
  return looked.length === 0
    ? undefined
    : looked.map(({ key, operator, effect }) => once.shape({ key, operator, effect }));
}

const NO_CONTAINERS: Pod["spec"]["containers"] = [];

/** Those of claims. */
function projectedVolumes(volumes: Pod["spec"]["volumes"], once: Once): Pod["spec"]["volumes"] {
  return volumes
    ?.filter(({ persistentVolumeClaim, ephemeral }) => persistentVolumeClaim ?? ephemeral)
    .map(({ name, persistentVolumeClaim, ephemeral }) => ({
      name: once.text(name),
      persistentVolumeClaim: persistentVolumeClaim && { claimName: persistentVolumeClaim.claimName },
      ephemeral: ephemeral && once.shape({}),
    }));
}
