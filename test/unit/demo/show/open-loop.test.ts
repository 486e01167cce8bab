import { describe, expect, it } from "@jest/globals";
import { createOfferedLoad } from "../../../../demo/show/writers/open-loop.ts";

describe("the offered load", () => {
  it("is due at its rate, counted from its start", () => {
    const load = createOfferedLoad(60_000_000, 1000);
    expect(load.dueMs(60_000_000)).toBe(2000);
    expect(load.offeredBytes(3000)).toBe(120_000_000);
  });

  it("does not fall behind when the writer does", () => {
    const load = createOfferedLoad(10_000, 0);
    // Nothing was written for 5 s: all of it is due at once, none is forgiven.
    expect(load.offeredBytes(5000)).toBe(50_000);
    expect(load.dueMs(50_000)).toBe(5000);
  });

  it("begins a new schedule at a change of rate and forgets what the old one owed", () => {
    const load = createOfferedLoad(10_000, 0);
    load.changeRate(1_000, 2_000, 5000);
    expect(load.dueMs(3_000)).toBe(6000);
    expect(load.offeredBytes(5000)).toBe(2_000);
  });

  it("is never due at rate 0", () => {
    const load = createOfferedLoad(0, 0);
    expect(load.dueMs(1)).toBe(Number.POSITIVE_INFINITY);
  });
});
