// The objects that tell of a node, of a volume and of what a pod asks for, as the stores have them.
import { volumeUIDOf } from "../../api/identity.ts";
import type { Node, PersistentVolumeClaim } from "../../kube/resources.ts";
import { foreignSlotOf, isRefusal, type SeenObjects, volumeDemandOf } from "../decide/decide-demand.ts";
import type { NodeObjects } from "../decide/decide-node.ts";
import { madeAt, type VolumeObjects } from "../decide/decide-reservation.ts";
import type { ClusterStores } from "./cluster-stores.ts";

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
  return isRefusal(demand) ? undefined : demand;
}

/** Another driver's volume takes a slot from when its pod is bound, and shows as attached later. */
function foreignDemandOf(claim: PersistentVolumeClaim, seen: SeenObjects): VolumeObjects["demand"] {
  const slot = foreignSlotOf(claim, seen);
  return slot === undefined ? undefined : { classes: [], slots: [slot] };
}
