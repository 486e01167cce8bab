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

/** Changed in place: with each pod some are out of date. */
interface KeptVerdict {
  node: KnownNode;
  takenVersion: number;
  verdict: Verdict;
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
        const { number, taken, facts } = node;
        const known = ofDemand[number];
        if (known?.node === node && known.takenVersion === taken.version) return known.verdict;
        const verdict = judge(node);
        if (facts.unheardSinceMs !== undefined) return verdict;
        if (known === undefined) ofDemand[number] = { node, takenVersion: taken.version, verdict };
        else {
          known.node = node;
          known.takenVersion = taken.version;
          known.verdict = verdict;
        }
        return verdict;
      };
    },
  };
}

/** All of the demand that a node is judged by; undefined: it is of volumes that are there already, and hardly asked for twice. */
function textOf({ drivers, classes, slots, placed, toleratesCordon }: Demand): string | undefined {
  return slots.length > 0 || placed.length > 0 ? undefined : JSON.stringify({ drivers, classes, toleratesCordon });
}
