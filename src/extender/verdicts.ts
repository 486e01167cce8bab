// What nodes were found to be for a demand, kept until something of the node changes: pods of one kind ask for the same one after another,
// and between two questions few of 5,000 nodes change. What a verdict depends on besides is judged anew each time.
import type { KnownNode } from "./cluster-view.ts";
import type { Demand } from "./demand.ts";
import type { Misfit } from "./misfit.ts";

export interface Verdict {
  readonly misfit: Misfit | undefined;
  /** 0 with a misfit. */
  readonly score: number;
}

export interface Verdicts {
  /**
   * `judge` has to follow from the demand and the node (its facts, what is taken of it) alone, and for a node that is not heard from the
   * time.
   */
  of(demand: Demand, judge: (node: KnownNode) => Verdict): (node: KnownNode) => Verdict;
}

/** Demands whose verdicts are kept; the one that was asked for longest ago gives way. */
const DEMANDS_LIMIT = 8;

interface KeptVerdict {
  readonly node: KnownNode;
  readonly takenVersion: number;
  readonly verdict: Verdict;
}

export function createVerdicts(): Verdicts {
  /** By the text of the demand, in order of use; each by the number of the node. */
  const kept = new Map<string, (KeptVerdict | undefined)[]>();
  return {
    of: (demand, judge) => {
      const text = textOf(demand);
      if (text === undefined) return judge;
      const ofDemand = kept.get(text) ?? [];
      kept.delete(text);
      kept.set(text, ofDemand);
      const [oldest] = kept.keys();
      if (kept.size > DEMANDS_LIMIT && oldest !== undefined) kept.delete(oldest);
      return (node) => {
        const before = ofDemand[node.number];
        if (before !== undefined && before.node === node && before.takenVersion === node.taken.version)
          return before.verdict;
        const verdict = judge(node);
        if (node.facts.unheardSinceMs === undefined)
          ofDemand[node.number] = { node, takenVersion: node.taken.version, verdict };
        return verdict;
      };
    },
  };
}

/** All of the demand that a node is judged by; undefined: it is of volumes that are there already, and hardly asked for twice. */
function textOf({ drivers, classes, slots, placed, toleratesCordon }: Demand): string | undefined {
  return slots.length > 0 || placed.length > 0 ? undefined : JSON.stringify({ drivers, classes, toleratesCordon });
}
