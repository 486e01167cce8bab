import { describe, expect, it } from "@jest/globals";
import { lostPair, randomPairs } from "../../harness/death-pairs.ts";

const NAMES = ["a", "b", "c", "d", "e"];

describe("pairs of deaths", () => {
  it("have two different points each, in the order in which a life passes them", () => {
    for (const [first = "", second = ""] of randomPairs(NAMES, 1000, 7)) expect(first < second).toBe(true);
  });

  it("reach every pair of points sooner or later", () => {
    expect(new Set(randomPairs(NAMES, 1000, 7).map((pair) => pair.join())).size).toBe(10);
  });

  it("are the same for the same seed, and others for another", () => {
    expect(randomPairs(NAMES, 20, 7)).toEqual(randomPairs(NAMES, 20, 7));
    expect(randomPairs(NAMES, 20, 7)).not.toEqual(randomPairs(NAMES, 20, 8));
  });

  it.each([
    ["a point that the suite does not name any more", ["a", "former"], "which has no former"],
    ["a single point", ["a"], "a pair is two points of made"],
  ])("are refused by name where one that is recorded has %s", (_what, points, said) => {
    const kept = [
      { suite: "made", points: ["a", "b"] },
      { suite: "made", points },
    ];
    expect(lostPair(kept, NAMES)).toContain(`Adapt or remove ${JSON.stringify(kept[1])} in test/seeds.json`);
    expect(lostPair(kept, NAMES)).toContain(said);
    expect(lostPair(kept.slice(0, 1), NAMES)).toBeUndefined();
  });

  it("are not made of a single point", () => {
    expect(randomPairs(["a"], 3, 7)).toEqual([]);
  });
});
