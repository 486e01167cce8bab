// The cluster as placement sees it: facts of each node and reservations of each volume, kept up to date by the changes that are told. A
// change only marks what it touches; that is worked out when it is looked at next.
import type { FilesystemLayout } from "../api/filesystem-layout.ts";
import { volumeHandleOf, volumeUIDOf } from "../api/identity.ts";
import { RECORDS } from "../api/names.ts";
import type { KubeObject } from "../kube/object.ts";
import type { Node, PersistentVolumeClaim, Pod } from "../kube/resources.ts";
import { type ClusterStores, isAgent, type KindsRead, nodeOfLayout } from "./cluster-stores.ts";
import { claimsOf, foreignSlotOf, isRefusal, type SeenObjects, volumeDemandOf } from "./decide-demand.ts";
import { type NodeObjects, nodeFactsOf } from "./decide-node.ts";
import { hasEnded, madeAt, type Reservation, reservationOf } from "./decide-reservation.ts";
import { createGrown } from "./grown.ts";
import { createHeardAgents } from "./heard-agents.ts";
import { createKnownNodes, type ReadableNodes } from "./known-nodes.ts";
import type { Ledger } from "./ledger.ts";
import { keyAt, type NodeFacts } from "./node-facts.ts";
import { createPromised } from "./promised.ts";
import { createSettling } from "./settling.ts";

export interface ClusterView extends ReadableNodes {
  readonly seen: SeenObjects;
  /** Works out all that has changed. */
  refresh(nowMs: number): void;
  /** To be told of each object that was added or is gone, and of each that was changed with what it was before. */
  changed<K extends keyof KindsRead>(kind: K, object: KindsRead[K], before?: KindsRead[K]): void;
}

export function createClusterView(stores: ClusterStores, ledger: Ledger, now: () => number): ClusterView {
  const known = createKnownNodes();
  const dirtyNodes = new Set<string>();
  const dirtyVolumes = new Set<string>();
  const settling = createSettling(stores);
  const promised = createPromised();
  const grown = createGrown(ledger);
  const agents = createHeardAgents(stores);

  const seen = seenIn(stores);

  const refreshNode = (name: string, nowMs: number): void => {
    const node = stores.nodes.get(name);
    if (node === undefined) {
      known.remove(name);
      ledger.forget(name);
      // What its agent said last is believed if the node comes back, and so is what is known of that agent.
      if (stores.nodeStorages.get(name) === undefined) for (const one of [settling, agents]) one.forget(name);
      return;
    }
    const facts = nodeFactsOf(nodeObjectsIn(stores, node, agents.unheardSinceMs(name)), nowMs);
    known.put({ facts, taken: ledger.takenOf(name) });
  };
  ledger.subscribe(known.touch);

  const counts = (handle: string, { nodeName, isMade, isPromise }: Reservation, nowMs: number): boolean => {
    if (isPromise) return promised.isOpen(handle, nodeName, nowMs);
    return !isMade || settling.isOpen(handle, nodeName, ledger.reservation(handle) !== undefined, nowMs);
  };

  const claimOf = (handle: string): PersistentVolumeClaim | undefined =>
    stores.claims.byIndex("uid", volumeUIDOf(handle) ?? "")[0];

  const refreshVolume = (handle: string, nowMs: number): void => {
    const claim = claimOf(handle);
    const demand = claim === undefined ? undefined : (volumeDemandOf(claim, seen) ?? foreignDemandOf(claim, seen));
    const reservation = reservationOf(
      {
        claim,
        logicalVolume: stores.logicalVolumes.get(handle),
        layout: stores.layouts.get(handle),
        pods: claim === undefined ? [] : stores.pods.byIndex("claim", claimKey(claim)),
        demand: isRefusal(demand) ? undefined : demand,
      },
      (nodeName, one) => keyAt(factsOf(nodeName, known), one),
    );
    // An attempt that has failed does not begin the time anew.
    const isTried = stores.logicalVolumes.get(handle) !== undefined;
    if (claim === undefined || claim.spec.volumeName || (reservation === undefined && !isTried)) promised.end(handle);
    const takes = reservation !== undefined && counts(handle, reservation, nowMs);
    ledger.reserve(handle, takes ? reservation : undefined);
    if (takes || reservation?.isMade === true || claim?.spec.volumeName) ledger.seen(handle);
  };

  const markVolumesOfPod = (pod: Pod): void => {
    for (const { name } of claimsOf(pod)) {
      const uid = stores.claims.get(`${pod.metadata.namespace}/${name}`)?.metadata.uid;
      if (uid !== undefined) dirtyVolumes.add(volumeHandleOf(uid));
    }
  };

  const marks: { readonly [K in keyof KindsRead]: (object: KindsRead[K]) => void } = {
    nodes: ({ metadata }) => dirtyNodes.add(metadata.name),
    nodeStorages: ({ metadata }) => {
      settling.reported(metadata.name, now());
      grown.reported(metadata.name, now());
      for (const handle of settling.openOn(metadata.name)) dirtyVolumes.add(handle);
      dirtyNodes.add(metadata.name);
    },
    csiNodes: ({ metadata }) => dirtyNodes.add(metadata.name),
    storageClasses: ({ metadata }) => {
      for (const claim of stores.claims.byIndex("class", metadata.name))
        if (!claim.spec.volumeName) dirtyVolumes.add(volumeHandleOf(claim.metadata.uid ?? ""));
    },
    claims: ({ metadata }) => dirtyVolumes.add(volumeHandleOf(metadata.uid ?? "")),
    volumes: ({ metadata, spec }) => {
      const uid = metadata.labels?.[RECORDS.volumeUID] ?? spec.claimRef?.uid;
      if (uid !== undefined) dirtyVolumes.add(volumeHandleOf(uid));
      if (spec.csi !== undefined) dirtyVolumes.add(spec.csi.volumeHandle);
    },
    attachments: ({ spec }) => {
      dirtyNodes.add(spec.nodeName);
      const handle = handleOfAttached(spec.source.persistentVolumeName, stores);
      if (handle !== undefined) dirtyVolumes.add(handle);
    },
    layouts: (layout) => {
      const nodeName = nodeOfLayout(layout);
      if (nodeName !== undefined) dirtyNodes.add(nodeName);
      dirtyVolumes.add(layout.metadata.name);
    },
    logicalVolumes: ({ metadata }) => dirtyVolumes.add(metadata.name),
    pods: (pod) => {
      markVolumesOfPod(pod);
      const { uid } = pod.metadata;
      const isGone = stores.pods.get(podKey(pod))?.metadata.uid !== uid;
      if (uid !== undefined && (isGone || pod.spec.nodeName || hasEnded(pod))) ledger.release(uid);
      if (isAgent(pod) && pod.spec.nodeName) {
        agents.changed(pod.spec.nodeName, now());
        dirtyNodes.add(pod.spec.nodeName);
      }
    },
  };

  return {
    seen,
    refresh: (nowMs) => {
      for (const name of dirtyNodes) refreshNode(name, nowMs);
      dirtyNodes.clear();
      for (const handle of [...settling.due(nowMs), ...promised.due(nowMs)]) dirtyVolumes.add(handle);
      for (const handle of dirtyVolumes) refreshVolume(handle, nowMs);
      dirtyVolumes.clear();
      settling.expire(nowMs);
      grown.expire(nowMs);
    },
    numberOf: known.numberOf,
    nodeAt: known.nodeAt,
    versions: known.versions,
    nodes: known.nodes,
    changed: (kind, object, before) => {
      const mark = marks[kind] as (changed: KubeObject) => void;
      if (before !== undefined) mark(before);
      mark(object);
      if (kind === "layouts" && before !== undefined)
        grown.changed(before as FilesystemLayout, object as FilesystemLayout, now());
    },
  };
}

function seenIn(stores: ClusterStores): SeenObjects {
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

function nodeObjectsIn(stores: ClusterStores, node: Node, unheardSinceMs: number | undefined): NodeObjects {
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

function factsOf(nodeName: string, { numberOf, nodeAt }: ReadableNodes): NodeFacts | undefined {
  const number = numberOf(nodeName);
  return number === undefined ? undefined : nodeAt(number).facts;
}

function claimKey({ metadata }: PersistentVolumeClaim): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function podKey({ metadata }: Pod): string {
  return `${metadata.namespace}/${metadata.name}`;
}

/** Another driver's volume takes a slot from when its pod is bound, and shows as attached later. */
function foreignDemandOf(claim: PersistentVolumeClaim, seen: SeenObjects) {
  const slot = foreignSlotOf(claim, seen);
  return slot === undefined ? undefined : { classes: [], slots: [slot] };
}

/**
 * By what reservations are kept: of a member of a span its volume, by the records on the member's PersistentVolume; of another driver's
 * volume its claim.
 */
function handleOfAttached(volumeName: string | undefined, { volumes }: ClusterStores): string | undefined {
  const volume = volumes.get(volumeName ?? "");
  const uid = volume?.metadata.labels?.[RECORDS.volumeUID] ?? volume?.spec.claimRef?.uid;
  return uid === undefined ? undefined : volumeHandleOf(uid);
}
