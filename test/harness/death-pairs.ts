// Two deaths in one life, at points that chance picks: the long run lives with many such pairs. A pair that failed once is kept in
// test/seeds.json under "death-pairs", and every run lives with it again.
import { existsSync, readFileSync } from "node:fs";
import { createRandom } from "../vm/power-cut/cut-plan.ts";
import { seedOfRun } from "../vm/power-cut/seeds.ts";
import { takesAll } from "./sample.ts";

/** Those that live with pairs, as test/seeds.json names them. */
export const SUITES_OF_PAIRS = [
  "ca-publisher-crash",
  "kill-matrix",
  "lvm-operator-crash",
  "pod-webhook-crash",
  "span-operator-crash",
];
const SEEDS = "test/seeds.json";

export interface KeptPair {
  readonly suite: string;
  /** As the suite names its points. */
  readonly points: readonly string[];
}

export interface DeathPairs {
  readonly pairs: readonly (readonly string[])[];
  /** For the message of one that failed. */
  tell(pair: readonly string[], failure: string): string;
}

/** Those that are kept, and in the long run `count` more. TIDEMARK_SEED repeats them; otherwise they follow from the commit. */
export function deathPairs(suite: string, names: readonly string[], count: number): DeathPairs {
  const kept = keptPairs().filter((pair) => pair.suite === suite);
  const lost = lostPair(kept, names);
  if (lost !== undefined) throw new Error(lost);
  const seed = seedOfRun();
  if (takesAll()) console.log(`${suite}: ${count} pairs of deaths by TIDEMARK_SEED=${seed}`);
  return {
    pairs: [...kept.map(({ points }) => points), ...(takesAll() ? randomPairs(names, count, seed) : [])],
    tell: (points, failure) =>
      `${points.join(" and ")}, of TIDEMARK_SEED=${seed}: ${failure}\n  keep ${JSON.stringify({ suite, points })} in ${SEEDS} under "death-pairs"`,
  };
}

/** A pair with a point that its suite does not name any more would be lived through without its deaths. Undefined: there is none. */
export function lostPair(kept: readonly KeptPair[], names: readonly string[]): string | undefined {
  const lost = kept.find(({ points }) => points.length !== 2 || !points.every((point) => names.includes(point)));
  if (lost === undefined) return undefined;
  const unknown = lost.points.filter((point) => !names.includes(point));
  return `Adapt or remove ${JSON.stringify(lost)} in ${SEEDS}: a pair is two points of ${lost.suite}, which has no ${unknown.join(", ") || "third"}`;
}

/** Two different points each, in the order of `names`. */
export function randomPairs(names: readonly string[], count: number, seed: number): string[][] {
  if (names.length < 2) return [];
  const random = createRandom(seed);
  return Array.from({ length: count }, () => {
    const first = Math.floor(random() * names.length);
    const second = (first + 1 + Math.floor(random() * (names.length - 1))) % names.length;
    return names.filter((_name, index) => index === first || index === second);
  });
}

export function keptPairs(): readonly KeptPair[] {
  if (!existsSync(SEEDS)) return [];
  const seeds = JSON.parse(readFileSync(SEEDS, "utf8")) as { readonly "death-pairs"?: readonly KeptPair[] };
  return seeds["death-pairs"] ?? [];
}
