import { describe, expect, it } from "@jest/globals";
import { bisect, tellCulprits } from "../../harness/bisect.ts";

const POINTS = ["a", "b", "c", "d", "e", "f", "g"];
/** Fails where all of these are lived with. */
const failingWith =
  (...culprits: string[]) =>
  async (points: readonly string[]) =>
    culprits.every((culprit) => points.includes(culprit)) ? `lost a file at ${points.length} deaths` : undefined;

describe("a life of several deaths that failed", () => {
  it.each(POINTS)("is lived again until %s alone is left, the one death that makes it fail", async (culprit) => {
    const found = await bisect(POINTS, "lost a file", failingWith(culprit));
    expect(found).toEqual({ points: [culprit], failure: "lost a file at 1 deaths" });
  });

  it("names deaths that fail only together", async () => {
    expect((await bisect(POINTS, "lost a file", failingWith("a", "g"))).points).toEqual(POINTS);
    expect((await bisect(POINTS, "lost a file", failingWith("e", "f"))).points).toEqual(["e", "f"]);
  });

  it("tells both the single death and the life that it was found in", async () => {
    const culprits = await bisect(POINTS, "lost a file", failingWith("c"));
    expect(tellCulprits(POINTS, "lost a file", culprits, (point) => point)).toBe(
      "c, alone: lost a file at 1 deaths\n  found in a life with 7 deaths (a, b, c, d, e, f, g) failed: lost a file",
    );
  });

  it("that fails with no single death says so", async () => {
    const culprits = await bisect(["a", "b"], "lost a file", failingWith("a", "b"));
    expect(tellCulprits(["a", "b"], "lost a file", culprits, (point) => point)).toContain("only together, a and b");
  });
});
