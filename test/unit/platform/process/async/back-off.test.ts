import { describe, expect, it } from "@jest/globals";
import { backOffMs } from "../../../../../src/platform/process/async/back-off.ts";

const BACK_OFF = { baseMs: 100, capMs: 1000 };

describe("backOffMs", () => {
  it("is nothing without a failure", () => {
    expect(backOffMs(0, BACK_OFF, 0.5)).toBe(0);
  });

  it.each([
    [1, 50, 100],
    [2, 100, 200],
    [4, 400, 800],
    [5, 500, 1000],
    [5000, 500, 1000],
  ])("after %i failures lies between %i and %i ms", (failures, least, most) => {
    expect(backOffMs(failures, BACK_OFF, 0)).toBe(least);
    expect(backOffMs(failures, BACK_OFF, 0.999_999)).toBeCloseTo(most, 0);
  });
});
