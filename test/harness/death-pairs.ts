// Two deaths in one life, at points that chance picks: the long run lives with many such pairs. A pair that failed once is kept in
// test/seeds.json under "death-pairs", and every run lives with it again.
import { existsSync, readFileSync } from "node:fs";
import { createRandom } from "../vm/power-cut/cut-plan.ts";
import { seedOfRun } from "../vm/power-cut/seeds.ts";
import { takesAll } from "./sample.ts";

const SEEDS = "test/seeds.json";

interface KeptPair {
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
  const seed = seedOfRun();
  if (takesAll()) console.log(`${suite}: ${count} pairs of deaths by TIDEMARK_SEED=${seed}`);
  return {
    pairs: [...kept.map(({ points }) => points), ...(takesAll() ? randomPairs(names, count, seed) : [])],
    tell: (points, failure) =>
      `${points.join(" and ")}, of TIDEMARK_SEED=${seed}: ${failure}\n  keep ${JSON.stringify({ suite, points })} in ${SEEDS} under "death-pairs"`,
  };
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

function keptPairs(): readonly KeptPair[] {
  if (!existsSync(SEEDS)) return [];
  const seeds = JSON.parse(readFileSync(SEEDS, "utf8")) as { readonly "death-pairs"?: readonly KeptPair[] };
  return seeds["death-pairs"] ?? [];
}
