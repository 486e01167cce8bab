// The kinds that placement is decided from, and how they are found. Plain stores: reflectors fill them in the process, a list in the
// CLI, tests by hand.

import { volumeHandleOf, volumeUIDOf } from "../../contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import { NODE_STORAGES, type NodeStorage } from "../../contracts/kinds/node-storage.ts";
import type { Resource } from "../../contracts/kubernetes/object.ts";
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
} from "../../contracts/kubernetes/resources.ts";
import { RECORDS } from "../../contracts/names.ts";
import { createStore, type IndexOf, type ReadableStore, type Store } from "../../platform/kube/cache/store.ts";
import { claimsOf, foreignSlotOf, isUnplaceable, type SeenObjects, volumeDemandOf } from "../decide/decide-demand.ts";
import type { NodeObjects } from "../decide/decide-node.ts";
import { madeAt, type VolumeObjects } from "../decide/decide-reservation.ts";

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

// Which objects describe a node, a volume and a pod's demand, and which nodes and volumes a changed object touches.

export function seenIn(stores: ClusterStores): SeenObjects {
  return {
    claim: (namespace, name) => stores.claims.get(`${namespace}/${name}`),
    volume: (name) => stores.volumes.get(name),
    storageClass: (name) => stores.storageClasses.get(name),
    layout: (handle) => stores.layouts.get(handle),
    madeAt: (handle) =>
      madeAt({ logicalVolume: stores.logicalVolumes.get(handle), layout: stores.layouts.get(handle) }),
    attachedAt: (name) => stores.attachments.byIndex("volume", name).map(({ spec }) => spec.nodeName),
  };
}

export function nodeObjectsIn(stores: ClusterStores, node: Node, unheardSinceMs: number | undefined): NodeObjects {
  const { name } = node.metadata;
  return {
    node,
    storage: stores.nodeStorages.get(name),
    csiNode: stores.csiNodes.get(name),
    attachments: stores.attachments.byIndex("node", name),
    layouts: stores.layouts.byIndex("node", name),
    unheardSinceMs,
  };
}

export function volumeObjectsIn(stores: ClusterStores, seen: SeenObjects, handle: string): VolumeObjects {
  const [claim] = stores.claims.byIndex("uid", volumeUIDOf(handle) ?? "");
  return {
    claim,
    logicalVolume: stores.logicalVolumes.get(handle),
    layout: stores.layouts.get(handle),
    pods: claim === undefined ? [] : stores.pods.byIndex("claim", claimKey(claim)),
    demand: claim && demandOfClaim(claim, seen),
  };
}

function claimKey({ metadata }: PersistentVolumeClaim): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function demandOfClaim(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeObjects["demand"] {
  const demand = volumeDemandOf(claim, seen) ?? foreignDemandOf(claim, seen);
  return isUnplaceable(demand) ? undefined : demand;
}

/** Another driver's volume takes a slot from when its pod is bound, and shows as attached later. */
function foreignDemandOf(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeObjects["demand"] {
  const slot = foreignSlotOf(claim, seen);
  return slot === undefined ? undefined : { classes: [], slots: [slot] };
}

export interface Touched {
  readonly nodes: Set<string>;
  /** By their handles. */
  readonly volumes: Set<string>;
}

/** To be called with what the object was before, too: what it has left is touched as well. */
export function touch<K extends keyof KindsRead>(
  kind: K,
  object: KindsRead[K],
  stores: ClusterStores,
  touched: Touched,
): void {
  TOUCHES[kind](object, touched, stores);
}

type Touch<T> = (object: T, touched: Touched, stores: ClusterStores) => void;

const TOUCHES: { readonly [K in keyof KindsRead]: Touch<KindsRead[K]> } = {
  nodes: ({ metadata }, { nodes }) => nodes.add(metadata.name),
  nodeStorages: ({ metadata }, { nodes }) => nodes.add(metadata.name),
  csiNodes: ({ metadata }, { nodes }) => nodes.add(metadata.name),
  storageClasses: ({ metadata }, { volumes }, { claims }) => {
    for (const claim of claims.byIndex("class", metadata.name))
      if (!claim.spec.volumeName) volumes.add(volumeHandleOf(claim.metadata.uid ?? ""));
  },
  claims: ({ metadata }, { volumes }) => volumes.add(volumeHandleOf(metadata.uid ?? "")),
  volumes: (volume, { volumes }) => {
    const uid = reservationUIDOf(volume);
    if (uid !== undefined) volumes.add(volumeHandleOf(uid));
    if (volume.spec.csi !== undefined) volumes.add(volume.spec.csi.volumeHandle);
  },
  attachments: ({ spec }, { nodes, volumes }, stores) => {
    nodes.add(spec.nodeName);
    const volume = stores.volumes.get(spec.source.persistentVolumeName ?? "");
    const uid = volume && reservationUIDOf(volume);
    if (uid !== undefined) volumes.add(volumeHandleOf(uid));
  },
  layouts: (layout, { nodes, volumes }) => {
    const nodeName = nodeOfLayout(layout);
    if (nodeName !== undefined) nodes.add(nodeName);
    volumes.add(layout.metadata.name);
  },
  logicalVolumes: ({ metadata }, { volumes }) => volumes.add(metadata.name),
  pods: touchOfPod,
};

function touchOfPod(pod: Pod, { nodes, volumes }: Touched, { claims }: ClusterStores): void {
  for (const { name } of claimsOf(pod)) {
    const uid = claims.get(`${pod.metadata.namespace}/${name}`)?.metadata.uid;
    if (uid !== undefined) volumes.add(volumeHandleOf(uid));
  }
  if (isAgent(pod) && pod.spec.nodeName) nodes.add(pod.spec.nodeName);
}

/**
 * The UID of a reservation: of a member of a span its volume, by the records on the member's PersistentVolume; of another driver's volume
 * its claim.
 */
function reservationUIDOf({ metadata, spec }: PersistentVolume): string | undefined {
  return metadata.labels?.[RECORDS.volumeUID] ?? spec.claimRef?.uid;
}
