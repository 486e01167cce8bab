// The cluster as placement sees it: facts of each node and reservations of each volume. A change only marks what it touches; the next
// reader works it out.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { Pod } from "../../contracts/kubernetes/resources.ts";
import type { Ledger, NodeTaken } from "../apply/ledger.ts";
import {
  createGrown,
  createVolumeReservations,
  type Grown,
  type VolumeReservations,
} from "../apply/volume-reservations.ts";
import type { ClassDemand, SeenObjects } from "../decide/decide-demand.ts";
import { keyAt, type NodeFacts, nodeFactsOf, type Taken, unheardSince } from "../decide/decide-node.ts";
import { canHave, hasEnded } from "../decide/decide-reservation.ts";
import {
  type ClusterStores,
  isAgent,
  type KindsRead,
  nodeObjectsIn,
  seenIn,
  type Touched,
  touch,
} from "./cluster-stores.ts";

export interface ClusterView extends ReadableNodes {
  readonly seen: SeenObjects;
  /** Works out all that has changed. */
  refresh(nowMs: number): void;
  /** To be called for each object that was added or is gone, and for each that was changed, with what it was before. */
  changed<K extends keyof KindsRead>(kind: K, object: KindsRead[K], before?: KindsRead[K]): void;
}

/** What is known of the cluster, and what changes have touched since the last refresh. */
interface View {
  readonly stores: ClusterStores;
  readonly ledger: Ledger;
  readonly known: KnownNodes;
  readonly agents: HeardAgents;
  readonly grown: Grown;
  readonly reservations: VolumeReservations;
  readonly touched: Touched;
}

export function createClusterView(stores: ClusterStores, ledger: Ledger, now: () => number): ClusterView {
  const seen = seenIn(stores);
  const known = createKnownNodes();
  const agents = createHeardAgents(stores);
  const grown = createGrown(ledger);
  const touched: Touched = { nodes: new Set(), volumes: new Set() };
  const keyOf = (nodeName: string, demand: ClassDemand): string => keyAt(factsOf(known, nodeName), demand);
  const nodeCanHave = (nodeName: string, taken: Taken): boolean => {
    const facts = factsOf(known, nodeName);
    return facts !== undefined && canHave(facts, taken);
  };
  const reservations = createVolumeReservations({ stores, seen, ledger, keyOf, canHave: nodeCanHave });
  ledger.subscribe(known.touch);
  const view: View = { stores, ledger, known, agents, grown, reservations, touched };
  return {
    seen,
    refresh: (nowMs) => refresh(view, nowMs),
    numberOf: known.numberOf,
    nodeAt: known.nodeAt,
    versions: known.versions,
    nodes: known.nodes,
    changed: (kind, object, before) => {
      if (before !== undefined) note(view, kind, before, now);
      note(view, kind, object, now);
      if (kind === "layouts" && before !== undefined)
        grown.changed(before as FilesystemLayout, object as FilesystemLayout, now());
    },
  };
}

function factsOf(known: KnownNodes, nodeName: string): NodeFacts | undefined {
  const number = known.numberOf(nodeName);
  return number === undefined ? undefined : known.nodeAt(number).facts;
}

function refresh(view: View, nowMs: number): void {
  const { touched, reservations, grown } = view;
  for (const name of touched.nodes) {
    refreshNode(view, name, nowMs);
    for (const handle of reservations.promisedOn(name)) touched.volumes.add(handle);
  }
  touched.nodes.clear();
  for (const handle of reservations.due(nowMs)) touched.volumes.add(handle);
  for (const handle of touched.volumes) reservations.refresh(handle, nowMs);
  touched.volumes.clear();
  reservations.expire(nowMs);
  grown.expire(nowMs);
}

function refreshNode(view: View, name: string, nowMs: number): void {
  const { stores, ledger, known, agents } = view;
  const node = stores.nodes.get(name);
  if (node === undefined) return forgetNode(view, name);
  const facts = nodeFactsOf(nodeObjectsIn(stores, node, agents.unheardSinceMs(name)), nowMs);
  known.put({ facts, taken: ledger.takenOf(name) });
}

function forgetNode({ stores, ledger, known, agents, reservations }: View, name: string): void {
  known.remove(name);
  ledger.forget(name);
  // What its agent said last is believed if the node comes back, and so is what is known of that agent.
  if (stores.nodeStorages.get(name) === undefined) for (const one of [reservations, agents]) one.forget(name);
}

function note<K extends keyof KindsRead>(view: View, kind: K, object: KindsRead[K], now: () => number): void {
  touch(kind, object, view.stores, view.touched);
  if (kind === "nodeStorages") noteReport(view, object.metadata.name, now());
  if (kind === "pods") notePod(view, object as Pod, now());
}

function noteReport({ grown, reservations, touched }: View, nodeName: string, nowMs: number): void {
  grown.reported(nodeName, nowMs);
  for (const handle of reservations.reported(nodeName, nowMs)) touched.volumes.add(handle);
}

function notePod({ stores, ledger, agents }: View, pod: Pod, nowMs: number): void {
  const { uid } = pod.metadata;
  if (uid !== undefined && isPlacedOrGone(pod, stores)) ledger.release(uid);
  if (isAgent(pod) && pod.spec.nodeName) agents.changed(pod.spec.nodeName, nowMs);
}

/** The objects show where it went: its hold can end. */
function isPlacedOrGone(pod: Pod, { pods }: ClusterStores): boolean {
  const { namespace, name, uid } = pod.metadata;
  const isGone = pods.get(`${namespace}/${name}`)?.metadata.uid !== uid;
  return isGone || Boolean(pod.spec.nodeName) || hasEnded(pod);
}

/**
 * Whether the agent of each node is heard, by its pods: as kubelet and the control plane see them, or gone since a moment that only we saw.
 */
interface HeardAgents {
  /** A pod of the node's agent has changed, or is gone. */
  changed(nodeName: string, nowMs: number): void;
  /** Undefined: it is heard. */
  unheardSinceMs(nodeName: string): number | undefined;
  /** The node is gone, and so is all that an agent has said there. */
  forget(nodeName: string): void;
}

function createHeardAgents({ pods }: Pick<ClusterStores, "pods">): HeardAgents {
  const goneMs = new Map<string, number>();
  return {
    changed: (nodeName, nowMs) => {
      if (pods.byIndex("agent", nodeName).length > 0) goneMs.delete(nodeName);
      else goneMs.set(nodeName, nowMs);
    },
    unheardSinceMs: (nodeName) => unheardSinceOf(pods.byIndex("agent", nodeName), goneMs.get(nodeName)),
    forget: (nodeName) => goneMs.delete(nodeName),
  };
}

/**
 * The best of several, as while one takes another's place. Where no agent runs as a pod this is unknown, and does not count against the
 * node.
 */
function unheardSinceOf(agents: readonly Pod[], goneMs: number | undefined): number | undefined {
  if (agents.length === 0) return goneMs;
  const unheard = agents.map(unheardSince);
  return unheard.includes(undefined) ? undefined : Math.max(...unheard.map((sinceMs) => sinceMs ?? 0));
}

// The nodes of the cluster by number, so that the data of thousands of them are contiguous lists.

export interface KnownNode {
  readonly facts: NodeFacts;
  readonly taken: NodeTaken;
}

export interface ReadableNodes {
  /** From 0 on, of no other node at this time; undefined: it is not known. */
  numberOf(nodeName: string): number | undefined;
  /** Of a number that a node has. */
  nodeAt(number: number): KnownNode;
  /** By the node's number: another one after each change of the node, and of what is taken of it. */
  readonly versions: readonly number[];
  nodes(): Iterable<KnownNode>;
}

interface KnownNodes extends ReadableNodes {
  /** Added, or changed. */
  put(node: KnownNode): void;
  remove(nodeName: string): void;
  /** Something else is taken of it. */
  touch(nodeName: string): void;
}

function createKnownNodes(): KnownNodes {
  const numbers = new Map<string, number>();
  const nodes: (KnownNode | undefined)[] = [];
  const versions: number[] = [];
  /** Of nodes that are gone. */
  const free: number[] = [];
  const change = (number: number): void => {
    versions[number] = (versions[number] ?? 0) + 1;
  };
  return {
    numberOf: (nodeName) => numbers.get(nodeName),
    nodeAt: (number) => {
      const node = nodes[number];
      if (node === undefined) throw new Error(`no node has the number ${number}`);
      return node;
    },
    versions,
    nodes: () => nodes.filter((node) => node !== undefined),
    put: (node) => {
      const number = numbers.get(node.facts.name) ?? free.pop() ?? nodes.length;
      numbers.set(node.facts.name, number);
      nodes[number] = node;
      change(number);
    },
    remove: (nodeName) => {
      const number = numbers.get(nodeName);
      if (number === undefined) return;
      numbers.delete(nodeName);
      nodes[number] = undefined;
      free.push(number);
    },
    touch: (nodeName) => {
      const number = numbers.get(nodeName);
      if (number !== undefined) change(number);
    },
  };
}
