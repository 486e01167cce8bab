import { expect, it } from "@jest/globals";
import { createPace } from "../../../../src/operator/apply/member-steps.ts";

it("asks once in an interval for each key, and forgets what is over", () => {
  let nowMs = 0;
  const pace = createPace({ monotonicMs: () => nowMs }, 1000);
  expect([pace.mayAsk("a"), pace.mayAsk("a"), pace.mayAsk("b")]).toEqual([true, false, true]);
  nowMs = 999;
  expect([pace.mayAsk("a"), pace.mayAsk("c")]).toEqual([false, true]);
  nowMs = 1000;
  expect([pace.mayAsk("a"), pace.mayAsk("a"), pace.mayAsk("c")]).toEqual([true, false, false]);
});

it("asks again at once where that was in vain", () => {
  const pace = createPace({ monotonicMs: () => 0 }, 1000);
  expect([pace.mayAsk("a"), pace.mayAsk("a")]).toEqual([true, false]);
  pace.forget("a");
  expect(pace.mayAsk("a")).toBe(true);
});
