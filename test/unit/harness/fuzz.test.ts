import assert from "node:assert/strict";
import { describe, expect, it } from "@jest/globals";
import { textMutator } from "../../fuzz/mutate.ts";
import { fuzz } from "../../fuzz/run-target.ts";
import { type FuzzTarget, pure, type Take } from "../../fuzz/target.ts";

const SEED = 20;

function target(take: Take): FuzzTarget {
  return {
    name: "words",
    parsers: [],
    seeds: () => ["a=1", "b=2"],
    mutate: textMutator(["bad", "="]),
    refusals: ["SyntaxError"],
    start: pure((input) => {
      const text = input.toString("utf8");
      if (!text.includes("=")) throw new SyntaxError(`no "=" in "${text}"`);
      return take(input);
    }),
  };
}

/** Only what has this word in it is treated in another way. */
const onBad = (work: () => void): FuzzTarget =>
  target((input) => {
    if (input.includes("bad")) work();
  });

function busy(cpuMs: number): void {
  for (const before = process.cpuUsage(); process.cpuUsage(before).user < cpuMs * 1000; );
}

describe("fuzzing", () => {
  it("counts what was accepted and refused, by the same seed the same", async () => {
    const run = await fuzz(
      target(() => undefined),
      { seed: SEED, inputs: 500, limitMs: 1000 },
    );
    expect(run).toMatchObject({ inputs: 500, failure: undefined });
    expect(Math.min(run.accepted, run.refused)).toBeGreaterThan(50);
    const again = await fuzz(
      target(() => undefined),
      { seed: SEED, inputs: 500, limitMs: 1000 },
    );
    expect(again).toEqual({ ...run, slowestMs: again.slowestMs });
  });

  it.each<[kind: string, work: () => void, says: string]>([
    // eslint-disable-next-line no-restricted-syntax -- a value that is not of its type is the crash
    ["crash", () => (undefined as unknown as string[]).push(""), "TypeError"],
    ["wrong acceptance", () => assert.fail("it is not so"), "it is not so"],
    ["pollution", () => Object.assign(Object.prototype, { polluted: true }), "Object.prototype: polluted"],
    ["slow", () => busy(30), "ms of CPU"],
  ])("ends at a %s with the seed and the smallest input", async (kind, work, says) => {
    const { failure } = await fuzz(onBad(work), { seed: SEED, inputs: 2000, limitMs: 20 });
    expect(failure).toMatch(`words: ${kind}: `);
    expect(failure).toMatch(says);
    expect(failure).toMatch(`TIDEMARK_SEED=${SEED}`);
    const input = Buffer.from(/in base64: (\S+)/.exec(failure ?? "")?.[1] ?? "", "base64").toString();
    expect([...input].sort().join("")).toBe("=abd");
    expect(({} as { polluted?: true }).polluted).toBeUndefined();
  });
});
