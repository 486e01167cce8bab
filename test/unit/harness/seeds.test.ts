// What test/seeds.json has every run repeat is of a list, a suite and a life that there are: a seed of a former one would be repeated by nobody.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { keptPairs, SUITES_OF_PAIRS } from "../../harness/death-pairs.ts";
import type { Life } from "../../vm/power-cut/cut-plan.ts";
import { LOOP_VOLUMES } from "../../vm/power-cut/loop-plan.ts";
import { RECORDED } from "../../vm/power-cut/record-plan.ts";
import { failedSeeds, readSeedLists } from "../../vm/power-cut/seeds.ts";
import { SHRINKS } from "../../vm/power-cut/shrink-plan.ts";
import { SPANS } from "../../vm/power-cut/span-plan.ts";
import { UNMOUNTED_SHRINKS } from "../../vm/power-cut/unmounted-shrink-plan.ts";

const POWER_CUTS: readonly (readonly [list: string, lives: readonly Life[]])[] = [
  ["power-cuts", SHRINKS.lives],
  ["loop-power-cuts", LOOP_VOLUMES.lives],
  ["span-power-cuts", SPANS.lives],
  ["record-power-cuts", RECORDED.lives],
  ["unmounted-power-cuts", UNMOUNTED_SHRINKS.lives],
];
const LISTS = ["death-pairs", "properties", ...POWER_CUTS.map(([list]) => list)];

const SOURCES = ["test/real", "test/harness"].flatMap((directory) =>
  readdirSync(directory).map((name) => readFileSync(join(directory, name), "utf8")),
);

describe("the seeds that once failed", () => {
  it("stand in lists that a suite reads, and no other", () => {
    expect(Object.keys(readSeedLists()).sort()).toEqual(LISTS.sort());
  });

  it.each(POWER_CUTS)("of %s are of lives that there are", (list, lives) => {
    expect(() => failedSeeds(list, lives)).not.toThrow();
    expect(SOURCES.some((source) => source.includes(`list: "${list}"`))).toBe(true);
  });

  it("of a former life, or of a list that is missing, are refused with their names", () => {
    const seed = { seed: 7, life: "former", cuts: 2 };
    expect(() => failedSeeds("power-cuts", SHRINKS.lives, { "power-cuts": [seed] })).toThrow(JSON.stringify(seed));
    expect(() => failedSeeds("former-cuts", SHRINKS.lives, {})).toThrow();
  });

  it("are pairs of deaths of suites that live with pairs", () => {
    for (const suite of SUITES_OF_PAIRS)
      expect(SOURCES.some((source) => new RegExp(`(deathPairs|liveWithEachDeath)\\("${suite}"`).test(source))).toBe(
        true,
      );
    expect(keptPairs().filter(({ suite }) => !SUITES_OF_PAIRS.includes(suite))).toEqual([]);
  });
});
