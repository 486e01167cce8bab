import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { byScore, type ScoreParts, scoreOf } from "../../../../src/extender/decide/decide-score.ts";
import { property } from "../../../harness/property.ts";

const EVEN = { weights: { free: 1, growth: 1, io: 1 } };
const NONE: ScoreParts = { free: undefined, growth: undefined, io: undefined };

describe("what kube-scheduler is told of a node", () => {
  it.each<[string, ScoreParts, number]>([
    ["is rounded, since HostPriority.Score is an int64", { free: 7, growth: 8, io: undefined }, 8],
    ["is the mean of what is known alone", { free: 6, growth: undefined, io: undefined }, 6],
    ["is 0 where nothing is known", NONE, 0],
    ["is 0 where the parts make no number", { ...NONE, io: Number.NaN }, 0],
    ["is never more than MaxExtenderPriority", { ...NONE, growth: 10.6 }, 10],
    ["is never less than 0", { ...NONE, growth: -1 }, 0],
  ])("%s", (_what, parts, score) => {
    expect(scoreOf(parts, EVEN)).toBe(score);
  });

  const partsOf = (part: fc.Arbitrary<number>): fc.Arbitrary<ScoreParts> => {
    const known = fc.option(part, { nil: undefined });
    return fc.record({ free: known, growth: known, io: known });
  };
  const weight = fc.oneof(fc.integer({ min: 0, max: 10 }), fc.double({ min: 0, max: 1_000_000, noNaN: true }));
  property(
    "is a whole number from 0 to 10, whatever its parts and the weights are",
    { runs: 5000, reaches: { "a score within": 0.1, "0": 0.1 } },
    [
      fc.oneof(partsOf(fc.integer({ min: 0, max: 100 }).map((tenths) => tenths / 10)), partsOf(fc.double())),
      fc.record({ free: weight, growth: weight, io: weight }),
    ],
    (reach, parts, weights) => {
      const score = scoreOf(parts, { weights });
      expect(Number.isInteger(score) && score >= 0 && score <= 10).toBe(true);
      expect(Object.is(score, -0)).toBe(false);
      if (score === 0) reach("0");
      if (score > 0 && score < 10) reach("a score within");
    },
  );
});

it("something of each score is in the order of the scores", () => {
  expect(Object.values(byScore((score) => score))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});
