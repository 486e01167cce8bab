// Every parser that reads what others write, against a minute of inputs: the long run has a million for each (test/soak/fuzz.test.ts).
import { describe, expect, it } from "@jest/globals";
import { fuzz } from "../fuzz/run-target.ts";
import { FUZZ_TARGETS } from "../fuzz/table.ts";
import { seedOf } from "../harness/property.ts";

const SEED = seedOf(process.env["TIDEMARK_SEED"]);
/** Of a target that costs the usual. */
const INPUTS = Number(process.env["TIDEMARK_FUZZ_INPUTS"] || 12_000);
/** Fewer reach no assertion worth the name. */
const ACCEPTED_MIN = 10;

describe("inputs that nobody would write by right", () => {
  it.each(FUZZ_TARGETS.map((target) => [target.name, target] as const))("%s", async (name, target) => {
    const run = await fuzz(target, SEED, Math.ceil(INPUTS / (target.cost ?? 1)));
    process.stderr.write(
      `TIDEMARK_SEED=${SEED} ${name}: ${JSON.stringify({ ...run, slowestMs: Math.round(run.slowestMs) })}\n`,
    );
    expect(run.failure).toBeUndefined();
    expect(run.accepted).toBeGreaterThan(ACCEPTED_MIN);
    if (target.refusals.length > 0) expect(run.refused).toBeGreaterThan(0);
  });
});
