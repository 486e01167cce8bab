// What the scheduler's two questions are answered with: which nodes take a pod, and how well each suits it. What is offered is held until
// the objects show where the pod went, so that the next question already counts it.
import { type HeldNode, HOLDS_LIMIT, type Ledger } from "./apply/ledger.ts";
import {
  type ClaimingPod,
  type ClassDemand,
  type Demand,
  demandOf,
  isUnplaceable,
  type Unplaceable,
} from "./decide/decide-demand.ts";
import { type FitFailure, fitFailureOf } from "./decide/decide-fit.ts";
import { addTaken, keyAt, type NodeFacts, nothingTaken, type Taken } from "./decide/decide-node.ts";
import { takenAt } from "./decide/decide-reservation.ts";
import {
  type ByScore,
  byScore,
  type Score,
  type ScoreParts,
  type ScoreSettings,
  scoreOf,
  scoreParts,
} from "./decide/decide-score.ts";
import type { ClusterView, KnownNode, ReadableNodes } from "./gather/cluster-view.ts";

export interface PlacementSettings extends ScoreSettings {
  /** The most nodes that a pod is offered: all of them are held for it, and no others. */
  readonly offeredNodes: number;
}

export interface FilterAnswer {
  readonly fits: readonly string[];
  readonly fitFailures: readonly { readonly nodeName: string; readonly fitFailure: FitFailure }[];
  /** Why no node at all takes the pod; `fitFailures` is empty then. */
  readonly refusal: Unplaceable | undefined;
}

export interface ScoredNode {
  readonly nodeName: string;
  readonly score: Score;
}

interface ExplainedNode {
  readonly nodeName: string;
  readonly fitFailure: FitFailure | undefined;
  readonly parts: ScoreParts;
  readonly score: Score;
}

export interface Placement {
  filter(pod: ClaimingPod, candidates: readonly string[], nowMs: number): FilterAnswer;
  prioritize(pod: ClaimingPod, candidates: readonly string[], nowMs: number): readonly ScoredNode[];
  /** As filter and prioritize would answer now, of every node; nothing is held. Undefined: the pod has no volumes of ours. */
  explain(pod: ClaimingPod, nowMs: number): readonly ExplainedNode[] | Unplaceable | undefined;
}

const UNKNOWN_NODE: Verdict = { fitFailure: { reason: "UnknownNode", subject: "", needed: 0, has: 0 }, score: 0 };
/** By score, so that thousands of nodes share eleven of them. */
const FITS = byScore((score): Verdict => ({ fitFailure: undefined, score }));
const TOO_MANY: Unplaceable = {
  sentence: `more than ${HOLDS_LIMIT} pods are being placed at once; retrying`,
  mayPass: true,
};
const NO_PARTS: ScoreParts = { free: undefined, growth: undefined, io: undefined };

export function createPlacement(view: ClusterView, ledger: Ledger, settings: PlacementSettings): Placement {
  const verdicts = createVerdicts(view);
  let turn = 0;

  const verdictsFor = (question: Question): ((number: number) => Verdict) => {
    const judge = (node: KnownNode): Verdict => {
      const fitFailure = fitFailureAt(question, node);
      return fitFailure === undefined ? FITS[scoreAt(question, node, settings)] : { fitFailure, score: 0 };
    };
    const verdictOf = verdicts.of(question.demand, judge);
    const { own } = question;
    const isOwn = (number: number): boolean => own.has(view.nodeAt(number).facts.name);
    return own.size === 0 ? verdictOf : (number) => (isOwn(number) ? judge(view.nodeAt(number)) : verdictOf(number));
  };

  const ask = (pod: ClaimingPod, nowMs: number): Question | Unplaceable | undefined => {
    view.refresh(nowMs);
    ledger.expire(nowMs);
    const demand = demandOf(pod, view.seen);
    if (demand === undefined || isUnplaceable(demand)) return demand;
    ledger.release(pod.metadata.uid ?? "");
    return { demand, own: ownReservations(demand, ledger), nowMs };
  };

  const hold = (pod: ClaimingPod, { demand, own, nowMs }: Question, offered: readonly KnownNode[]): void => {
    const { uid } = pod.metadata;
    if (uid === undefined) return;
    const nodes = heldNodes(demand, own, offered);
    const unseen = demand.awaited.filter((handle) => ledger.reservation(handle) === undefined);
    // Where all are seen and the pod is offered other nodes nonetheless, what was seen is out of date.
    ledger.hold(uid, unseen.length > 0 ? unseen : demand.awaited, nodes, nowMs);
  };

  return {
    filter: (pod, candidates, nowMs) => {
      const question = ask(pod, nowMs);
      if (question === undefined) return { fits: candidates, fitFailures: [], refusal: undefined };
      if (isUnplaceable(question)) return { fits: [], fitFailures: [], refusal: question };
      if (ledger.isFull()) return { fits: [], fitFailures: [], refusal: TOO_MANY };
      const { fitting, fitFailures } = sorted(candidates, view, verdictsFor(question));
      turn += 1;
      const offered = bestOf(fitting, settings.offeredNodes, turn).map(view.nodeAt);
      hold(pod, question, offered);
      return { fits: offered.map(({ facts }) => facts.name), fitFailures, refusal: undefined };
    },
    prioritize: (pod, candidates, nowMs) => {
      const question = ask(pod, nowMs);
      if (question === undefined || isUnplaceable(question))
        return candidates.map((nodeName) => ({ nodeName, score: 0 }));
      const known = candidates.flatMap((nodeName) => view.numberOf(nodeName) ?? []).map(view.nodeAt);
      const scores = new Map(known.map((node) => [node.facts.name, scoreAt(question, node, settings)]));
      hold(pod, question, known);
      return candidates.map((nodeName) => ({ nodeName, score: scores.get(nodeName) ?? 0 }));
    },
    explain: (pod, nowMs) => {
      const question = ask(pod, nowMs);
      if (question === undefined || isUnplaceable(question)) return question;
      return [...view.nodes()].map((node) => {
        const fitFailure = fitFailureAt(question, node);
        const parts = fitFailure === undefined ? partsAt(question, node, settings) : NO_PARTS;
        return { nodeName: node.facts.name, fitFailure, parts, score: scoreOf(parts, settings) };
      });
    },
  };
}

interface Question {
  readonly demand: Demand;
  /** What the pod's own volumes have reserved already of what it asks for, by node. */
  readonly own: ReadonlyMap<string, Taken>;
  readonly nowMs: number;
}

/**
 * The numbers of those that fit, by score. A function of its own, since most of a question's time is spent in it: V8 compiles it again only
 * when something in it has changed.
 */
function sorted(
  candidates: readonly string[],
  view: ClusterView,
  verdictOf: (number: number) => Verdict,
): { readonly fitting: ByScore<readonly number[]>; readonly fitFailures: FilterAnswer["fitFailures"] } {
  const fitting = byScore((): number[] => []);
  const fitFailures: { nodeName: string; fitFailure: FitFailure }[] = [];
  for (const nodeName of candidates) {
    const number = view.numberOf(nodeName);
    const { fitFailure, score } = number === undefined ? UNKNOWN_NODE : verdictOf(number);
    if (fitFailure !== undefined) fitFailures.push({ nodeName, fitFailure });
    else if (number !== undefined) fitting[score].push(number);
  }
  return { fitting, fitFailures };
}

function ownReservations({ volumes }: Demand, ledger: Ledger): Map<string, Taken> {
  const own = new Map<string, Taken>();
  for (const { handle, isNew } of volumes) {
    const reservation = ledger.reservation(handle);
    // One that is made is no longer asked for: it takes its room like any volume.
    if (reservation === undefined || reservation.isMade) continue;
    const sum = own.get(reservation.nodeName) ?? nothingTaken();
    addTaken(sum, isNew ? reservation.taken : { ...nothingTaken(), slots: reservation.taken.slots }, 1);
    own.set(reservation.nodeName, sum);
  }
  return own;
}

function fitFailureAt({ demand, own, nowMs }: Question, { facts, taken }: KnownNode): FitFailure | undefined {
  return fitFailureOf(demand, facts, taken, own.get(facts.name), nowMs);
}

function partsAt({ demand, own }: Question, { facts, taken }: KnownNode, settings: PlacementSettings): ScoreParts {
  return scoreParts(demand, facts, taken, own.get(facts.name), settings);
}

function scoreAt(question: Question, node: KnownNode, settings: PlacementSettings): Score {
  return scoreOf(partsAt(question, node, settings), settings);
}

/**
 * What the pod asks of the nodes in addition to what it has reserved there, where that is anything. Most of them take the same, which is
 * computed and stored once: there are thousands of holds, each on many nodes.
 */
function heldNodes(demand: Demand, own: ReadonlyMap<string, Taken>, nodes: readonly KnownNode[]): readonly HeldNode[] {
  const shared = new Map<string, Taken>();
  const takenOf = (facts: NodeFacts): Taken => {
    const keyOf = (one: ClassDemand): string => keyAt(facts, one);
    const ofNode = own.get(facts.name);
    if (ofNode !== undefined) return beyond(takenAt(facts.name, demand, keyOf), ofNode);
    const text = differences(demand, facts);
    const taken = shared.get(text) ?? takenAt(facts.name, demand, keyOf);
    shared.set(text, taken);
    return taken;
  };
  return nodes.flatMap(({ facts }) => {
    const taken = takenOf(facts);
    return taken.bytes.size === 0 && taken.slots.size === 0 ? [] : [{ nodeName: facts.name, taken }];
  });
}

/** All that one node differs in from another in what the demand takes of it. */
function differences({ classes, slots }: Demand, facts: NodeFacts): string {
  const keys = classes.map((one) => (one.madeAt === facts.name ? "" : keyAt(facts, one)));
  return [...keys, ...slots.map(({ attachedAt }) => attachedAt.includes(facts.name))].join(" ");
}

function beyond(all: Taken, own: Taken): Taken {
  return { bytes: amountsBeyond(all.bytes, own.bytes), slots: amountsBeyond(all.slots, own.slots) };
}

function amountsBeyond(all: ReadonlyMap<string, number>, own: ReadonlyMap<string, number>): Map<string, number> {
  return new Map(
    [...all].flatMap(([key, amount]) => {
      const rest = amount - (own.get(key) ?? 0);
      return rest > 0 ? [[key, rest] as const] : [];
    }),
  );
}

/** Those of the highest scores; of equal ones others at each turn, so that pods at the same moment seldom meet. */
function bestOf(fitting: ByScore<readonly number[]>, limit: number, turn: number): readonly number[] {
  const best: number[] = [];
  for (const equal of Object.values(fitting).reverse()) {
    const start = (turn * limit) % Math.max(1, equal.length);
    for (let index = 0; index < equal.length && best.length < limit; index += 1) {
      const number = equal[(start + index) % equal.length];
      if (number !== undefined) best.push(number);
    }
  }
  return best;
}

// The verdicts of nodes on a demand, until something of the node changes. Pods of one kind ask for the same one after another, and between
// two questions few of 5,000 nodes change. What else a verdict depends on is judged again each time.

interface Verdict {
  readonly fitFailure: FitFailure | undefined;
  /** 0 with a fit failure. */
  readonly score: Score;
}

interface Verdicts {
  /**
   * `judge` has to follow from the demand and the node (its facts, what is taken of it) alone, and for a node that is not heard from the
   * time. Nodes go by their numbers.
   */
  of(demand: Demand, judge: (node: KnownNode) => Verdict): (number: number) => Verdict;
}

/** Demands whose verdicts are stored; the least recently used one gives way. */
const DEMANDS_LIMIT = 8;

/** Lists by the node's number: a question reads all of them, and contiguous values are found fastest. */
interface StoredVerdicts {
  readonly verdicts: Verdict[];
  /** Of the node when it was judged; 0: never. */
  readonly versions: number[];
}

const NO_VERDICT: Verdict = { fitFailure: undefined, score: 0 };

function createVerdicts({ nodeAt, versions }: Pick<ReadableNodes, "nodeAt" | "versions">): Verdicts {
  /** By the text of the demand, in order of use. */
  const stored = new Map<string, StoredVerdicts>();
  return {
    of: (demand, judge) => {
      const text = textOf(demand);
      if (text === undefined) return (number) => judge(nodeAt(number));
      const known = stored.get(text) ?? { verdicts: [], versions: [] };
      stored.delete(text);
      stored.set(text, known);
      const [oldest] = stored.keys();
      if (stored.size > DEMANDS_LIMIT && oldest !== undefined) stored.delete(oldest);
      while (known.verdicts.length < versions.length) {
        known.verdicts.push(NO_VERDICT);
        known.versions.push(0);
      }
      return (number) => {
        const version = versions[number] ?? 0;
        if (known.versions[number] === version) return known.verdicts[number] ?? NO_VERDICT;
        const node = nodeAt(number);
        const verdict = judge(node);
        if (node.facts.unheardSinceMs !== undefined) return verdict;
        known.verdicts[number] = verdict;
        known.versions[number] = version;
        return verdict;
      };
    },
  };
}

/** All of the demand that a node is judged by; undefined: it is of volumes that are there already, and hardly asked for twice. */
function textOf({ drivers, classes, slots, placed, toleratesCordon }: Demand): string | undefined {
  return slots.length > 0 || placed.length > 0 ? undefined : JSON.stringify({ drivers, classes, toleratesCordon });
}
