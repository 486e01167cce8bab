// The cluster as placement sees it: facts of each node and reservations of each volume, kept up to date by the changes that are told. A
// change only marks what it touches; that is worked out when it is looked at next.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Pod } from "../../kube/resources.ts";
import { createGrown } from "../apply/grown.ts";
import type { Ledger } from "../apply/ledger.ts";
import { createVolumeReservations } from "../apply/volume-reservations.ts";
import type { SeenObjects } from "../decide/decide-demand.ts";
import { nodeFactsOf } from "../decide/decide-node.ts";
import { canHave, hasEnded } from "../decide/decide-reservation.ts";
import type { ClassDemand } from "../decide/demand.ts";
import { keyAt, type Taken } from "../decide/node-facts.ts";
import { type ClusterStores, isAgent, type KindsRead } from "./cluster-stores.ts";
import { nodeObjectsIn, seenIn } from "./gather-objects.ts";
import { createHeardAgents } from "./heard-agents.ts";
import { createKnownNodes, type ReadableNodes } from "./known-nodes.ts";
import { type Touched, touch } from "./touched.ts";

export interface ClusterView extends ReadableNodes {
  readonly seen: SeenObjects;
  /** Works out all that has changed. */
  refresh(nowMs: number): void;
  /** To be told of each object that was added or is gone, and of each that was changed with what it was before. */
  changed<K extends keyof KindsRead>(kind: K, object: KindsRead[K], before?: KindsRead[K]): void;
}

export function createClusterView(stores: ClusterStores, ledger: Ledger, now: () => number): ClusterView {
  const seen = seenIn(stores);
  const known = createKnownNodes();
  const agents = createHeardAgents(stores);
  const grown = createGrown(ledger);
  const touched: Touched = { nodes: new Set(), volumes: new Set() };
  const keyOf = (nodeName: string, demand: ClassDemand): string => {
    const number = known.numberOf(nodeName);
    return keyAt(number === undefined ? undefined : known.nodeAt(number).facts, demand);
  };
  const nodeCanHave = (nodeName: string, taken: Taken): boolean => {
    const number = known.numberOf(nodeName);
    return number !== undefined && canHave(known.nodeAt(number).facts, taken);
  };
  const reservations = createVolumeReservations({ stores, seen, ledger, keyOf, canHave: nodeCanHave });
  ledger.subscribe(known.touch);

  const forgetNode = (name: string): void => {
    known.remove(name);
    ledger.forget(name);
    // What its agent said last is believed if the node comes back, and so is what is known of that agent.
    if (stores.nodeStorages.get(name) === undefined) for (const one of [reservations, agents]) one.forget(name);
  };
  const refreshNode = (name: string, nowMs: number): void => {
    const node = stores.nodes.get(name);
    if (node === undefined) return forgetNode(name);
    const facts = nodeFactsOf(nodeObjectsIn(stores, node, agents.unheardSinceMs(name)), nowMs);
    known.put({ facts, taken: ledger.takenOf(name) });
  };
  const noteReport = (nodeName: string, nowMs: number): void => {
    grown.reported(nodeName, nowMs);
    for (const handle of reservations.reported(nodeName, nowMs)) touched.volumes.add(handle);
  };
  const notePod = (pod: Pod, nowMs: number): void => {
    const { uid } = pod.metadata;
    if (uid !== undefined && isPlacedOrGone(pod, stores)) ledger.release(uid);
    if (isAgent(pod) && pod.spec.nodeName) agents.changed(pod.spec.nodeName, nowMs);
  };
  const note = <K extends keyof KindsRead>(kind: K, object: KindsRead[K]): void => {
    touch(kind, object, stores, touched);
    if (kind === "nodeStorages") noteReport(object.metadata.name, now());
    if (kind === "pods") notePod(object as Pod, now());
  };

  return {
    seen,
    refresh: (nowMs) => {
      for (const name of touched.nodes) {
        refreshNode(name, nowMs);
        for (const handle of reservations.promisedOn(name)) touched.volumes.add(handle);
      }
      touched.nodes.clear();
      for (const handle of reservations.due(nowMs)) touched.volumes.add(handle);
      for (const handle of touched.volumes) reservations.refresh(handle, nowMs);
      touched.volumes.clear();
      reservations.expire(nowMs);
      grown.expire(nowMs);
    },
    numberOf: known.numberOf,
    nodeAt: known.nodeAt,
    versions: known.versions,
    nodes: known.nodes,
    changed: (kind, object, before) => {
      if (before !== undefined) note(kind, before);
      note(kind, object);
      if (kind === "layouts" && before !== undefined)
        grown.changed(before as FilesystemLayout, object as FilesystemLayout, now());
    },
  };
}

/** The objects show where it went, so that nothing has to be held for it any more. */
function isPlacedOrGone(pod: Pod, { pods }: ClusterStores): boolean {
  const { namespace, name, uid } = pod.metadata;
  const isGone = pods.get(`${namespace}/${name}`)?.metadata.uid !== uid;
  return isGone || Boolean(pod.spec.nodeName) || hasEnded(pod);
}
