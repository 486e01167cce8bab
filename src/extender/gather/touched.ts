// Which nodes and volumes a change of an object touches: what is known of them has to be worked out anew.
import { volumeHandleOf } from "../../api/identity.ts";
import { RECORDS } from "../../api/names.ts";
import type { PersistentVolume, Pod } from "../../kube/resources.ts";
import { claimsOf } from "../decide/decide-demand.ts";
import { type ClusterStores, isAgent, type KindsRead, nodeOfLayout } from "./cluster-stores.ts";

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
 * By what reservations are kept: of a member of a span its volume, by the records on the member's PersistentVolume; of another driver's
 * volume its claim.
 */
function reservationUIDOf({ metadata, spec }: PersistentVolume): string | undefined {
  return metadata.labels?.[RECORDS.volumeUID] ?? spec.claimRef?.uid;
}
