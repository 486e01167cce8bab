// A burst of pods as a cluster lives through it, in virtual time: clients ask the extender, choose any node that it offers, and the
// objects follow in steps of their own length, each seen by the extender with a delay. Nobody here refuses what does not fit: how much was
// put on each node is recounted from the objects alone.

import type { LogicalVolume } from "../../src/contracts/kinds/logical-volume.ts";
import { parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import type { Ledger } from "../../src/extender/apply/ledger.ts";
import {
  addClasses,
  addNode,
  buildClaim,
  buildLogicalVolume,
  buildNodeStorage,
  buildPod,
  createFleet,
  type Fleet,
} from "./placement.ts";

export interface Burst {
  readonly nodes: number;
  readonly pods: number;
  readonly clients: number;
  /** Pods that each node has room for. */
  readonly room: number;
  readonly seed: number;
  readonly ledger?: Ledger;
  /** From a scheduler's choice to its first write: where writes are limited, a burst waits for them. */
  readonly bindingMs?: readonly [least: number, most: number];
}

export interface BurstEnd {
  readonly placed: number;
  /** Nodes whose volumes together are larger than their group. */
  readonly overCommits: number;
  /** Questions that no node was offered for; each pod asks again. */
  readonly refusals: number;
  /** Reservations and holds that are left a minute after the last pod. */
  readonly left: { readonly reservations: number; readonly holds: number };
}

const SIZE_GIB = 10;
const RETRY_MS = 50;
const REFUSALS_LIMIT = 1_000_000;

export function runBurst({ nodes, pods, clients, room, seed, ledger, bindingMs = [1, 30] }: Burst): BurstEnd {
  const fleet = createFleet({}, ledger);
  addClasses(fleet);
  const random = randomOf(seed);
  const names = Array.from({ length: nodes }, (_, index) => `node-${index}`);
  const size = `${room * SIZE_GIB}Gi`;
  for (const name of names) addNode(fleet, name, { free: size, size });
  const truth = new Map<string, LogicalVolume>();
  const usedGiB = new Map<string, number>();
  const events = createTimeline(fleet);
  let next = 0;
  let placed = 0;
  let refusals = 0;
  const between = (leastMs: number, mostMs: number): number => leastMs + random() * (mostMs - leastMs);

  const askFor = (index: number): void => {
    const pod = buildPod(index);
    const { fits } = fleet.placement.filter(pod, names, fleet.nowMs);
    if (fits.length === 0) {
      refusals += 1;
      if (refusals < REFUSALS_LIMIT) events.after(between(RETRY_MS, 2 * RETRY_MS), () => askFor(index));
      return;
    }
    events.after(between(0, 5), () => {
      if (fits.length > 1) fleet.placement.prioritize(pod, fits, fleet.nowMs);
      // Whatever the extender likes best: others have a say in it.
      const nodeName = fits[Math.floor(random() * fits.length)] ?? "";
      events.after(between(...bindingMs), () => bind(index, nodeName));
      askNext();
    });
  };
  const askNext = (): void => {
    if (next >= pods) return;
    const index = next;
    next += 1;
    fleet.put("claims", buildClaim(index));
    fleet.put("pods", buildPod(index));
    events.after(between(0, 2), () => askFor(index));
  };
  const bind = (index: number, nodeName: string): void => {
    events.seen("claims", between(1, 40), () => fleet.put("claims", buildClaim(index, { selectedNode: nodeName })));
    events.after(between(20, 200), () => {
      truth.set(`fs-${index}`, buildLogicalVolume(index, nodeName));
      events.seen("logicalVolumes", between(1, 40), () =>
        fleet.put("logicalVolumes", buildLogicalVolume(index, nodeName, { createdMs: fleet.nowMs })),
      );
      events.after(between(50, 300), () => make(index, nodeName));
    });
  };
  const make = (index: number, nodeName: string): void => {
    const before = usedGiB.get(nodeName) ?? 0;
    usedGiB.set(nodeName, before + SIZE_GIB);
    const made = buildLogicalVolume(index, nodeName, { isMade: true, createdMs: fleet.nowMs });
    events.seen("logicalVolumes", between(1, 40), () => fleet.put("logicalVolumes", made));
    // As an agent does: within half a second, and what it tells is what there is then.
    events.after(between(450, 550), () => {
      const freeGiB = Math.max(0, room * SIZE_GIB - (usedGiB.get(nodeName) ?? 0));
      events.seen("nodeStorages", between(1, 40), () =>
        fleet.put("nodeStorages", buildNodeStorage(nodeName, { free: `${freeGiB}Gi`, size })),
      );
    });
    const volumeName = `pv-${index}`;
    events.seen("claims", between(40, 80), () =>
      fleet.put("claims", buildClaim(index, { selectedNode: nodeName, volumeName })),
    );
    events.seen("pods", between(80, 120), () => fleet.put("pods", buildPod(index, [`claim-${index}`], nodeName)));
    placed += 1;
  };

  for (let client = 0; client < Math.min(clients, pods); client += 1) askNext();
  events.run();
  fleet.view.refresh(fleet.nowMs);
  fleet.nowMs += 60_000;
  fleet.view.refresh(fleet.nowMs);
  fleet.ledger.expire(fleet.nowMs);
  const { left, overCommits } = { left: fleet.ledger.count(), overCommits: overCommitsIn(truth, room * SIZE_GIB) };
  return { placed, overCommits, refusals, left };
}

function overCommitsIn(truth: ReadonlyMap<string, LogicalVolume>, groupGiB: number): number {
  const bytes = new Map<string, number>();
  for (const { spec } of truth.values())
    bytes.set(spec.nodeName, (bytes.get(spec.nodeName) ?? 0) + parseQuantity(spec.size));
  return [...bytes.values()].filter((sum) => sum > groupGiB * 1024 ** 3).length;
}

interface Timeline {
  after(delayMs: number, step: () => void): void;
  /** What a watch of the kind tells: later, and never before what it has told already. */
  seen(kind: string, delayMs: number, step: () => void): void;
  run(): void;
}

function createTimeline(fleet: Fleet): Timeline {
  const steps: { atMs: number; order: number; step: () => void }[] = [];
  const lastSeenMs = new Map<string, number>();
  let order = 0;
  const at = (atMs: number, step: () => void): void => {
    order += 1;
    push(steps, { atMs, order, step });
  };
  return {
    after: (delayMs, step) => at(fleet.nowMs + delayMs, step),
    seen: (kind, delayMs, step) => {
      const atMs = Math.max(fleet.nowMs + delayMs, lastSeenMs.get(kind) ?? 0);
      lastSeenMs.set(kind, atMs);
      at(atMs, step);
    },
    run: () => {
      for (let first = pop(steps); first !== undefined; first = pop(steps)) {
        fleet.nowMs = first.atMs;
        first.step();
      }
    },
  };
}

interface Timed {
  readonly atMs: number;
  readonly order: number;
}

function isBefore(one: Timed, other: Timed): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/** A binary heap. */
function push<T extends Timed>(heap: T[], item: T): void {
  heap.push(item);
  for (let child = heap.length - 1; child > 0; ) {
    const parent = (child - 1) >> 1;
    const [lower, upper] = [heap[child], heap[parent]];
    if (lower === undefined || upper === undefined || !isBefore(lower, upper)) return;
    heap[child] = upper;
    heap[parent] = lower;
    child = parent;
  }
}

function pop<T extends Timed>(heap: T[]): T | undefined {
  const [first] = heap;
  const last = heap.pop();
  if (first === undefined || last === undefined || heap.length === 0) return first;
  heap[0] = last;
  for (let parent = 0; ; ) {
    let least = parent;
    for (const child of [2 * parent + 1, 2 * parent + 2]) {
      const [one, other] = [heap[child], heap[least]];
      if (one !== undefined && other !== undefined && isBefore(one, other)) least = child;
    }
    if (least === parent) return first;
    const [one, other] = [heap[parent], heap[least]];
    if (one === undefined || other === undefined) return first;
    heap[parent] = other;
    heap[least] = one;
    parent = least;
  }
}

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
