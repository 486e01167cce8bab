// What is taken of each node in addition to its own figures: reservations of volumes whose place is known, and holds of pods that were just
// answered. A hold lies on every offered node, since the scheduler may choose any of them. It ends when the objects show where the pod
// went, or after a limit.

import { addTaken, isNothing, nothingTaken, type Taken } from "../decide/decide-node.ts";
import type { Reservation } from "../decide/decide-reservation.ts";

interface Hold {
  readonly nodes: readonly HeldNode[];
  /** Volumes whose place is not seen yet. */
  readonly pending: Set<string>;
  readonly sinceMs: number;
}

export interface Ledger extends Pick<NodesTaken, "takenOf" | "forget" | "subscribe"> {
  reservation(handle: string): Reservation | undefined;
  /** Undefined: it no longer takes anything. */
  reserve(handle: string, reservation: Reservation | undefined): void;
  /** No further pod can be held for. */
  isFull(): boolean;
  /** In place of what the pod held before, unless it is full; `handles`: see Demand.awaited. */
  hold(podUid: string, handles: readonly string[], nodes: readonly HeldNode[], nowMs: number): void;
  /** The pod is placed, or gone. */
  release(podUid: string): void;
  /** The place of a volume is seen: the hold of its pod ends with the last one. */
  seen(handle: string): void;
  /** Ends the holds that are older than the limit; returns how many. */
  expire(nowMs: number): number;
  /** `nodes`: those that are not forgotten, and those of which something is taken. */
  count(): { readonly reservations: number; readonly holds: number; readonly nodes: number };
}

/** Pods that are being placed at the same moment; one more has to wait, since a hold that gave way would be a placement forgotten. */
export const HOLDS_LIMIT = 10_000;

export function createLedger(holdLimitMs: number): Ledger {
  const nodes = createNodesTaken();
  const reservations = new Map<string, Reservation>();
  /** In order of age. */
  const holds = new Map<string, Hold>();
  const podOfHandle = new Map<string, string>();

  const release = (podUid: string): void => {
    const hold = holds.get(podUid);
    if (hold === undefined) return;
    holds.delete(podUid);
    for (const node of hold.nodes) nodes.add("held", node, -1);
    for (const handle of hold.pending) if (podOfHandle.get(handle) === podUid) podOfHandle.delete(handle);
  };

  return {
    takenOf: nodes.takenOf,
    forget: nodes.forget,
    subscribe: nodes.subscribe,
    reservation: (handle) => reservations.get(handle),
    reserve: (handle, reservation) => {
      const before = reservations.get(handle);
      if (before !== undefined) nodes.add("reserved", before, -1);
      if (reservation === undefined) reservations.delete(handle);
      else {
        reservations.set(handle, reservation);
        nodes.add("reserved", reservation, 1);
      }
    },
    isFull: () => holds.size >= HOLDS_LIMIT,
    hold: (podUid, handles, held, nowMs) => {
      release(podUid);
      if (held.length === 0 || holds.size >= HOLDS_LIMIT) return;
      holds.set(podUid, { nodes: held, pending: new Set(handles), sinceMs: nowMs });
      for (const node of held) nodes.add("held", node, 1);
      for (const handle of handles) podOfHandle.set(handle, podUid);
    },
    release,
    seen: (handle) => {
      const podUid = podOfHandle.get(handle);
      const hold = podUid === undefined ? undefined : holds.get(podUid);
      if (podUid === undefined || hold === undefined) return;
      podOfHandle.delete(handle);
      hold.pending.delete(handle);
      if (hold.pending.size === 0) release(podUid);
    },
    expire: (nowMs) => {
      let expired = 0;
      for (const [podUid, { sinceMs }] of holds) {
        if (nowMs - sinceMs < holdLimitMs) break;
        release(podUid);
        expired += 1;
      }
      return expired;
    },
    count: () => ({ reservations: reservations.size, holds: holds.size, nodes: nodes.count() }),
  };
}

export interface NodeTaken {
  readonly reserved: Taken;
  readonly held: Taken;
}

export interface HeldNode {
  readonly nodeName: string;
  readonly taken: Taken;
}

/** How much is taken of each node, added up. It knows neither volumes nor pods. */
interface NodesTaken {
  /** Always the same object for a node until it is forgotten: what it says changes. */
  takenOf(nodeName: string): NodeTaken;
  /** The node is gone: no caller holds what takenOf returned. What is taken of it goes on counting. */
  forget(nodeName: string): void;
  /** Called for each node of which something else is taken. */
  subscribe(changed: (nodeName: string) => void): void;
  add(part: keyof NodeTaken, node: HeldNode, sign: 1 | -1): void;
  /** Of those that are not forgotten, and those of which something is taken. */
  count(): number;
}

function createNodesTaken(): NodesTaken {
  const nodes = new Map<string, NodeTaken>();
  /** Those whose object a caller has: it has to stay the same, whatever it says. */
  const watched = new Set<string>();
  const subscribed: ((nodeName: string) => void)[] = [];

  const entryOf = (nodeName: string): NodeTaken => {
    const known = nodes.get(nodeName);
    if (known !== undefined) return known;
    const taken = { reserved: nothingTaken(), held: nothingTaken() };
    nodes.set(nodeName, taken);
    return taken;
  };
  const dropIfNothing = (nodeName: string): void => {
    if (watched.has(nodeName)) return;
    const { reserved, held } = entryOf(nodeName);
    if (isNothing(reserved) && isNothing(held)) nodes.delete(nodeName);
  };
  return {
    takenOf: (nodeName) => {
      watched.add(nodeName);
      return entryOf(nodeName);
    },
    forget: (nodeName) => {
      watched.delete(nodeName);
      dropIfNothing(nodeName);
    },
    subscribe: (changed) => {
      subscribed.push(changed);
    },
    add: (part, { nodeName, taken }, sign) => {
      addTaken(entryOf(nodeName)[part], taken, sign);
      dropIfNothing(nodeName);
      for (const changed of subscribed) changed(nodeName);
    },
    count: () => nodes.size,
  };
}
