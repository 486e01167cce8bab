import { describe, expect, it } from "@jest/globals";
import { didYouMean } from "../../../../src/policy-engine/cel/errors.ts";

const KNOWN = ["usedRatio", "capacityBytes", "inodesUsed", "ageSeconds"];

describe("a suggestion", () => {
  it.each([
    ["capcityBytes", "did you mean capacityBytes?"],
    ["usedratios", "did you mean usedRatio?"],
    ["ageSecs", "did you mean ageSeconds?"],
    ["ages", `there are ${KNOWN.join(", ")}`],
    ["capacityBytes9999", `there are ${KNOWN.join(", ")}`],
  ])("for %s is: %s", (name, hint) => {
    expect(didYouMean(name, KNOWN)).toBe(hint);
  });

  it("costs nothing where the name is far longer than any that is known", () => {
    const before = process.cpuUsage();
    expect(didYouMean(`capacity${"9".repeat(100_000)}`, KNOWN)).toMatch(/^there are /);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(300);
  });
});
