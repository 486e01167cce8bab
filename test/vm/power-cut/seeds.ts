// Which plans of power cuts a run makes: a commit has its own, and those that once failed are replayed by every run for ever.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as z from "zod";
import type { Life } from "./cut-plan.ts";
import type { FailedSeed } from "./power-cycles.ts";

const PATH = fileURLToPath(new URL("../../seeds.json", import.meta.url));
const HASH_DIGITS = 8;

const failedSeed = z.strictObject({ seed: z.int().min(0), life: z.string(), cuts: z.int().positive() });

/** All of test/seeds.json, by list. */
export function readSeedLists(): Readonly<Record<string, unknown>> {
  return JSON.parse(readFileSync(PATH, "utf8")) as Record<string, unknown>;
}

/** By the name of a list; throws where there is no such list, and where one of its seeds is of none of the lives that there are. */
export function failedSeeds(list: string, lives: readonly Life[], lists = readSeedLists()): FailedSeed[] {
  const seeds = z.array(failedSeed).parse(lists[list]);
  const lost = seeds.find(({ life }) => !lives.some(({ name }) => name === life));
  if (lost === undefined) return seeds;
  const names = lives.map(({ name }) => name).join(", ");
  throw new Error(`Adapt or remove ${JSON.stringify(lost)} in "${list}" of test/seeds.json: its lives are ${names}`);
}

/** TIDEMARK_SEED, or the commit's. A tree without Git's history has 0. */
export function seedOfRun(): number {
  const given = process.env["TIDEMARK_SEED"];
  if (given) return Number(given);
  try {
    const hash = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return Number.parseInt(hash.slice(0, HASH_DIGITS), 16);
  } catch {
    return 0;
  }
}
