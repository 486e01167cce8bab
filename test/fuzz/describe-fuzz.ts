// The part of fuzzing that each run of the fast tests does: a minute in all. The long run has a million inputs for each parser.
import { describe, expect, it } from "@jest/globals";
import { seedOf } from "../harness/property.ts";
import { fuzz } from "./run-target.ts";
import type { FuzzTarget } from "./target.ts";

const SEED = seedOf(process.env["TIDEMARK_SEED"]);

/** Of a target that costs the usual. */
const INPUTS = Number(process.env["TIDEMARK_FUZZ_INPUTS"] || 6_000);
/** Of those: fewer say nothing of what is accepted wrongly. */
const ACCEPTED_MIN = 10;
/** A hang. What an input takes on a busy machine decides nothing here: the long run holds it to 100 ms. */
const LIMIT_MS = 2000;

export function describeFuzz(title: string, targets: readonly FuzzTarget[]): void {
  describe(title, () => {
    it.each(targets.map((target) => [target.name, target] as const))(
      "gives no parser of %s a crash, a long wait or a wrong answer",
      async (name, target) => {
        const run = await fuzz(target, {
          seed: SEED,
          inputs: Math.ceil(INPUTS / (target.cost ?? 1)),
          limitMs: LIMIT_MS,
        });
        const said = JSON.stringify({ ...run, slowestMs: Math.round(run.slowestMs) });
        process.stderr.write(`TIDEMARK_SEED=${SEED} repeats the inputs for ${name}: ${said}\n`);
        expect(run.failure).toBeUndefined();
        expect(run.accepted).toBeGreaterThan(ACCEPTED_MIN);
        if (target.refusals.length > 0) expect(run.refused).toBeGreaterThan(0);
      },
    );
  });
}
