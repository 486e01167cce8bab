// The kinds that placement is decided from, and how they are found. Plain stores: reflectors fill them in the process, a list in the
// CLI, tests by hand.
import type { FilesystemLayout } from "../api/filesystem-layout.ts";
import type { LogicalVolume } from "../api/logical-volume.ts";
import type { NodeStorage } from "../api/node-storage.ts";
import type {
  CSINode,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
  VolumeAttachment,
} from "../kube/resources.ts";
import { createStore, type IndexOf, type ReadableStore, type Store } from "../kube/store.ts";
import { claimsOf } from "./decide-demand.ts";

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

export type ClusterStores = { readonly [K in keyof KindsRead]: ReadableStore<KindsRead[K]> };

type Indexes = { readonly [K in keyof KindsRead]?: Readonly<Record<string, IndexOf<KindsRead[K]>>> };

/** As the agent's DaemonSet labels its pods. */
const AGENT_LABELS = { "app.kubernetes.io/name": "tidemark", "app.kubernetes.io/component": "agent" } as const;

export const CLUSTER_INDEXES = {
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
} as const satisfies Indexes;

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
  return {
    nodes: createStore({}),
    nodeStorages: createStore({}),
    csiNodes: createStore({}),
    storageClasses: createStore({}),
    claims: createStore(CLUSTER_INDEXES.claims),
    volumes: createStore({}),
    attachments: createStore(CLUSTER_INDEXES.attachments),
    layouts: createStore(CLUSTER_INDEXES.layouts),
    logicalVolumes: createStore({}),
    pods: createStore(CLUSTER_INDEXES.pods),
  };
}
