// What nodes were found to be for a demand, kept until something of the node changes: pods of one kind ask for the same one after another,
// and between two questions few of 5,000 nodes change. What a verdict depends on besides is judged anew each time.

import type { KnownNode, ReadableNodes } from "../gather/known-nodes.ts";
import type { Score } from "./decide-score.ts";
import type { Demand } from "./demand.ts";
import type { Misfit } from "./misfit.ts";

export interface Verdict {
  readonly misfit: Misfit | undefined;
  /** 0 with a misfit. */
  readonly score: Score;
}

export interface Verdicts {
  /**
   * `judge` has to follow from the demand and the node (its facts, what is taken of it) alone, and for a node that is not heard from the
   * time. Nodes are told by their numbers.
   */
  of(demand: Demand, judge: (node: KnownNode) => Verdict): (number: number) => Verdict;
}

/** Demands whose verdicts are kept; the one that was asked for longest ago gives way. */
const DEMANDS_LIMIT = 8;

/** Lists by the node's number: a question looks at all of them, and what lies side by side is found fastest. */
interface KeptVerdicts {
  readonly verdicts: Verdict[];
  /** Of the node when it was judged; 0: never. */
  readonly versions: number[];
}

const NO_VERDICT: Verdict = { misfit: undefined, score: 0 };

export function createVerdicts({ nodeAt, versions }: Pick<ReadableNodes, "nodeAt" | "versions">): Verdicts {
  /** By the text of the demand, in order of use. */
  const kept = new Map<string, KeptVerdicts>();
  return {
    of: (demand, judge) => {
      const text = textOf(demand);
      if (text === undefined) return (number) => judge(nodeAt(number));
      const known = kept.get(text) ?? { verdicts: [], versions: [] };
      kept.delete(text);
      kept.set(text, known);
      const [oldest] = kept.keys();
      if (kept.size > DEMANDS_LIMIT && oldest !== undefined) kept.delete(oldest);
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
