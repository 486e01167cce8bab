// Which plans of power cuts a run makes: a commit has its own, and those that once failed are replayed by every run for ever.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { FailedSeed } from "./power-cycles.ts";

const PATH = fileURLToPath(new URL("../../seeds.json", import.meta.url));
const HASH_DIGITS = 8;

const failedSeed = z.strictObject({ seed: z.int().min(0), life: z.string(), cuts: z.int().positive() });

/** By the name of a list in test/seeds.json; throws where there is no such list. */
export function failedSeeds(list: string): FailedSeed[] {
  const lists = JSON.parse(readFileSync(PATH, "utf8")) as Record<string, unknown>;
  return z.array(failedSeed).parse(lists[list]);
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
