// A million inputs for each parser that reads what others write. In `make soak` alone; test/integration/fuzz has some of them every time. A suite
// for each file of targets, so that each ends within the time of a long run.
import { describe, expect, it } from "@jest/globals";
import { fuzz } from "../fuzz/run-target.ts";
import type { FuzzTarget } from "../fuzz/target.ts";
import { seedOf } from "../harness/property.ts";
import { noteFigures } from "./figures.ts";

const SEED = seedOf(process.env["TIDEMARK_SEED"]);
const INPUTS = Number(process.env["TIDEMARK_FUZZ_INPUTS"] || 1_000_000);
const INPUT_LIMIT_MS = 100;
const LIMIT_MS = 2 * 3_600_000;

/** `suite`: its file name without the ending, for its figures. */
export function describeMillionInputs(suite: string, targets: readonly FuzzTarget[]): void {
  describe("a million inputs", () => {
    it.each(targets.map((target) => [target.name, target] as const))(
      "for %s",
      async (name, target) => {
        process.stderr.write(`TIDEMARK_SEED=${SEED} repeats the inputs for ${name}\n`);
        const run = await fuzz(target, { seed: SEED, inputs: INPUTS, limitMs: INPUT_LIMIT_MS });
        noteFigures(suite, { [name]: { seed: SEED, ...run, slowestMs: Math.round(run.slowestMs) } });
        expect(run.failure).toBeUndefined();
      },
      LIMIT_MS,
    );
  });
}
