import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { allRecordedSeeds, problemOf, property, seedOf } from "../../harness/property.ts";

const SEED = 42;
const numbers: [fc.Arbitrary<number>] = [fc.integer({ min: 0, max: 99 })];
const options = (runs: number, reaches: Record<string, number> = {}) => ({ runs, reaches });

/** The numbers that a property is asked with this seed, and what is said of it. */
async function asked(seed: number, check: (value: number) => void = () => {}, runs = 50) {
  const values: number[] = [];
  const one = {
    name: "any",
    options: options(runs),
    arbitraries: numbers,
    check: (_reach: unknown, value: number) => {
      values.push(value);
      check(value);
    },
  };
  const problem = await problemOf<[number], never>(one, seed);
  return { values, problem };
}

describe("a property", () => {
  it("is asked the same with the same seed, and something else with another", async () => {
    const { values } = await asked(SEED);
    expect((await asked(SEED)).values).toEqual(values);
    expect((await asked(SEED + 1)).values).not.toEqual(values);
    expect(values).toHaveLength(50);
  });

  it("that does not hold says by which seed, and how every run repeats it", async () => {
    const { problem } = await asked(SEED, (value) => expect(value).toBeLessThan(50));
    expect(problem).toContain("TIDEMARK_SEED=42 repeats it");
    expect(problem).toContain('"any": [42]');
    expect(problem).toContain("Counterexample: [[50]]");
  });

  it("fails when too few runs reach an assertion, however often one of them does", async () => {
    const check = (reach: (assertion: string) => void, value: number): void => {
      if (value < 10) for (let time = 0; time < 100; time += 1) reach("small");
      if (value < 90) reach("most");
    };
    const ask = (reaches: Record<string, number>) =>
      problemOf<[number], string>({ name: "any", options: options(1000, reaches), arbitraries: numbers, check }, SEED);
    expect(await ask({ small: 0.05, most: 0.8 })).toBeUndefined();
    expect(await ask({ small: 0.3, most: 0.8 })).toMatch(
      /too few reach an assertion.*\n"small" by \d+, less than 300$/,
    );
  });

  it("fails when under a tenth of its runs asserts anything, however little is asked of each assertion", async () => {
    const ask = (below: number) =>
      problemOf<[number], string>(
        {
          name: "any",
          options: options(1000, { small: 0.01 }),
          arbitraries: numbers,
          check: (reach, value) => (value >= 40 && value < below ? reach("small") : undefined),
        },
        SEED,
      );
    expect(await ask(90)).toBeUndefined();
    expect(await ask(44)).toMatch(/^of 1000 runs only \d+ assert anything, less than 100 \(seed 42\)$/);
  });

  it("ends in time where it would shrink for ever, and still says that it does not hold", async () => {
    let tries = 0;
    const slow = {
      name: "any",
      options: options(10),
      arbitraries: [fc.array(fc.integer(), { minLength: 500, maxLength: 1000, size: "max" })] as [
        fc.Arbitrary<number[]>,
      ],
      check: async (): Promise<void> => {
        tries += 1;
        await new Promise((resolve) => setTimeout(resolve, 20));
        throw new Error("never holds");
      },
    };
    expect(await problemOf<[number[]], never>(slow, SEED, 200)).toContain("never holds");
    // To shrink each of its 500 numbers once takes as many tries.
    expect(tries).toBeLessThan(100);
  });

  it.each([
    ["7", 7],
    ["-7", -7],
  ])("takes the seed %s", (given, seed) => {
    expect(seedOf(given)).toBe(seed);
  });

  it("takes no seed that is none, and a new one where none is given", () => {
    expect(() => seedOf("x")).toThrow('TIDEMARK_SEED is "x", which is no whole number');
    expect(new Set([seedOf(undefined, false), seedOf(undefined, false), seedOf("", false)]).size).toBe(3);
  });

  it("takes the commit's in CI, where what one run has found or passed the next one does, too", () => {
    expect(new Set([seedOf(undefined, true), seedOf(undefined, true), seedOf("", true)]).size).toBe(1);
  });

  property("that is one holds", { runs: 10, reaches: { all: 1 } }, numbers, (reach, value) => {
    reach("all");
    expect(value).toBeLessThan(100);
  });
});

it("every recorded seed is of a property that there is", () => {
  const sources = readdirSync("test", { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => readFileSync(join("test", path), "utf8"));
  for (const [name, seeds] of Object.entries(allRecordedSeeds())) {
    const isThere = sources.some((source) => source.includes(`property(`) && source.includes(`"${name}"`));
    expect([name, isThere]).toEqual([name, true]);
    expect(seeds.every(Number.isInteger)).toBe(true);
  }
});
