// The kinds that placement is decided from, and how they are found. Plain stores: reflectors fill them in the process, a list in the
// CLI, tests by hand.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import { createStore, type IndexOf, type ReadableStore, type Store } from "../../kube/cache/store.ts";
import type { Resource } from "../../kube/object.ts";
import {
  CSI_NODES,
  type CSINode,
  NODES,
  type Node,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  PODS,
  type Pod,
  STORAGE_CLASSES,
  type StorageClass,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../kube/resources.ts";
import { claimsOf } from "../decide/decide-demand.ts";

export interface KindsRead {
  readonly nodes: Node;
  readonly nodeStorages: NodeStorage;
  readonly csiNodes: CSINode;
  readonly storageClasses: StorageClass;
  readonly claims: PersistentVolumeClaim;
  readonly volumes: PersistentVolume;
  readonly attachments: VolumeAttachment;
  readonly layouts: FilesystemLayout;
  readonly logicalVolumes: LogicalVolume;
  readonly pods: Pod;
}

/** In the order in which they are listed: a report of a node that is listed after its volumes shows them. */
export const RESOURCES: { readonly [K in keyof KindsRead]: Resource<KindsRead[K]> } = {
  storageClasses: STORAGE_CLASSES,
  nodes: NODES,
  csiNodes: CSI_NODES,
  volumes: PERSISTENT_VOLUMES,
  claims: PERSISTENT_VOLUME_CLAIMS,
  attachments: VOLUME_ATTACHMENTS,
  layouts: FILESYSTEM_LAYOUTS,
  logicalVolumes: LOGICAL_VOLUMES,
  pods: PODS,
  nodeStorages: NODE_STORAGES,
};
export const KINDS_READ = Object.keys(RESOURCES) as readonly (keyof KindsRead)[];

export type ClusterStores = { readonly [K in keyof KindsRead]: ReadableStore<KindsRead[K]> };

type Indexes = { readonly [K in keyof KindsRead]?: Readonly<Record<string, IndexOf<KindsRead[K]>>> };

/** As the agent's DaemonSet labels its pods. */
const AGENT_LABELS = { "app.kubernetes.io/name": "tidemark", "app.kubernetes.io/component": "agent" } as const;

const INDEXES = {
  claims: { uid: ({ metadata }) => listed(metadata.uid), class: ({ spec }) => listed(spec.storageClassName) },
  attachments: {
    node: ({ spec }) => [spec.nodeName],
    volume: ({ spec }) => listed(spec.source.persistentVolumeName),
  },
  layouts: { node: (layout) => listed(nodeOfLayout(layout)) },
  pods: {
    claim: (pod) => claimsOf(pod).map(({ name }) => `${pod.metadata.namespace}/${name}`),
    agent: (pod) => (isAgent(pod) ? listed(pod.spec.nodeName) : []),
  },
} satisfies Indexes;

export function indexesOf<K extends keyof KindsRead>(kind: K): NonNullable<Indexes[K]> {
  const indexes: Indexes = INDEXES;
  return indexes[kind] ?? {};
}

export function nodeOfLayout({ spec, status }: FilesystemLayout): string | undefined {
  return status?.nodeName ?? spec.nodeName;
}

export function isAgent({ metadata }: Pod): boolean {
  return Object.entries(AGENT_LABELS).every(([key, value]) => metadata.labels?.[key] === value);
}

function listed(value: string | undefined): string[] {
  return value ? [value] : [];
}

export type WritableStores = { readonly [K in keyof KindsRead]: Store<KindsRead[K]> };

/** Empty. */
export function createClusterStores(): WritableStores {
  const storeOf = <K extends keyof KindsRead>(kind: K): Store<KindsRead[K]> => createStore(indexesOf(kind));
  return Object.fromEntries(KINDS_READ.map((kind) => [kind, storeOf(kind)])) as unknown as WritableStores;
}
