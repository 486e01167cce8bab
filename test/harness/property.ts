// Properties that hold for random values: each run prints its seed and takes one, ends in time also where it shrinks, repeats the seeds that
// have failed before, and fails when too few of its values reach an assertion. A property that asserts nothing is no property.
import { randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { expect, it } from "@jest/globals";
import fc from "fast-check";
import { seedOfRun } from "../vm/power-cut/seeds.ts";

/** A whole number: what a run has printed. */
const SEED_VARIABLE = "TIDEMARK_SEED";
/** Shrinking ends then, with the smallest counterexample that it has. */
const LIMIT_MS = 120_000;
const SEEDS_FILE = "test/seeds.json";
/** Of the runs, so many must reach some assertion, however seldom each of them is. */
const LEAST_ASSERTING = 0.1;
const SEEDS = 2 ** 31;

export interface PropertyOptions<Assertion extends string> {
  readonly runs: number;
  /** By assertion: the least share of the runs that must reach it; a tenth of them must reach some. Absent: each run asserts. */
  readonly reaches?: Readonly<Record<Assertion, number>>;
}

/** Says that the run has reached an assertion. */
export type Reach<Assertion extends string> = (assertion: Assertion) => void;

type Arbitraries<Values extends unknown[]> = { [Index in keyof Values]: fc.Arbitrary<Values[Index]> };

export interface Property<Values extends unknown[], Assertion extends string> {
  readonly name: string;
  readonly options: PropertyOptions<Assertion>;
  readonly arbitraries: Arbitraries<Values>;
  /** Throws where the property does not hold. */
  readonly check: (reach: Reach<Assertion>, ...values: Values) => void | Promise<void>;
}

/** A test case. `name` is a literal, unique among all properties: test/seeds.json names it. */
export function property<Values extends unknown[], Assertion extends string = never>(
  name: string,
  options: PropertyOptions<Assertion>,
  arbitraries: Arbitraries<Values>,
  check: (reach: Reach<Assertion>, ...values: Values) => void | Promise<void>,
): void {
  it(name, async () => {
    const one = { name, options, arbitraries, check };
    printSeed();
    for (const seed of [...recordedSeeds(name), SEED]) {
      const problem = await problemOf(one, seed);
      if (problem !== undefined) throw new Error(problem);
    }
  });
}

/** Why the property does not hold with the values of this seed; undefined: it does. */
export async function problemOf<Values extends unknown[], Assertion extends string>(
  { name, options: { runs, reaches }, arbitraries, check }: Property<Values, Assertion>,
  seed: number,
  limitMs = LIMIT_MS,
): Promise<string | undefined> {
  const counts = new Map<Assertion, number>();
  let asserting = 0;
  const run = async (...values: Values): Promise<void> => {
    const reached = new Set<Assertion>();
    await check((assertion) => reached.add(assertion), ...values);
    if (reached.size > 0) asserting += 1;
    for (const assertion of reached) counts.set(assertion, (counts.get(assertion) ?? 0) + 1);
  };
  const drawn = fc.tuple<Values>(...arbitraries);
  const details = await fc.check(
    fc.asyncProperty(drawn, (values) => run(...values)),
    { numRuns: runs, seed, interruptAfterTimeLimit: limitMs, includeErrorInReport: true },
  );
  if (details.failed) return `${await fc.asyncDefaultReportMessage(details)}\n${advice(name, seed)}`;
  if (details.interrupted) {
    process.stderr.write(`${name}: only ${details.numRuns} of ${runs} runs within ${limitMs} ms\n`);
    return tooSeldom(
      Object.entries(reaches ?? {}).map(([assertion]) => [assertion, 1 / runs]),
      counts,
      runs,
      seed,
    );
  }
  if (reaches !== undefined && asserting < LEAST_ASSERTING * runs)
    return `of ${runs} runs only ${asserting} assert anything, less than ${LEAST_ASSERTING * runs} (seed ${seed})`;
  return tooSeldom(Object.entries<number>(reaches ?? {}), counts, runs, seed);
}

function tooSeldom(
  shares: readonly (readonly [string, number])[],
  counts: ReadonlyMap<string, number>,
  runs: number,
  seed: number,
): string | undefined {
  const seldom = shares.filter(([assertion, share]) => (counts.get(assertion) ?? 0) < share * runs);
  if (seldom.length === 0) return undefined;
  const lines = seldom.map(
    ([assertion, share]) => `"${assertion}" by ${counts.get(assertion) ?? 0}, less than ${share * runs}`,
  );
  return `of ${runs} runs too few reach an assertion, so that it says nothing (seed ${seed}):\n${lines.join("\n")}`;
}

function advice(name: string, seed: number): string {
  return `${SEED_VARIABLE}=${seed} repeats it. In ${SEEDS_FILE}, "properties" has every run repeat it: "${name}": [${seed}]`;
}

/** The seeds that have failed once, by the property's name. */
export function allRecordedSeeds(): Readonly<Record<string, readonly number[]>> {
  const { properties = {} } = JSON.parse(readFileSync(SEEDS_FILE, "utf8")) as {
    properties?: Readonly<Record<string, readonly number[]>>;
  };
  return properties;
}

function recordedSeeds(name: string): readonly number[] {
  return allRecordedSeeds()[name] ?? [];
}

const SEED = seedOf(process.env[SEED_VARIABLE]);
let isPrinted = false;

/** A new one where none is given. */
export function seedOf(given: string | undefined, isCi = Boolean(process.env["CI"])): number {
  // In CI a commit has its own: what it is refused for, its author finds again, and what it has passed, it passes again.
  if (given === undefined || given === "") return isCi ? seedOfRun() % SEEDS : randomInt(SEEDS);
  const seed = Number(given);
  if (!Number.isInteger(seed)) throw new Error(`${SEED_VARIABLE} is "${given}", which is no whole number`);
  return seed;
}

function printSeed(): void {
  if (isPrinted) return;
  isPrinted = true;
  const file = relative(process.cwd(), expect.getState().testPath ?? "");
  process.stderr.write(`${SEED_VARIABLE}=${SEED} repeats the properties of ${file}\n`);
}
