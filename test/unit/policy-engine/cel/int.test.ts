// Our ints, which are numbers where that is exact, against plain bigint arithmetic.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { EvaluationFailure } from "../../../../src/policy-engine/cel/failure.ts";
import {
  addInt,
  divideInt,
  type Int,
  intOfDouble,
  MAX_INT,
  MIN_INT,
  moduloInt,
  multiplyInt,
  subtractInt,
  toInt,
} from "../../../../src/policy-engine/cel/int.ts";

const EDGES = [0n, 1n, -1n, 2n ** 31n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) + 1n, MAX_INT, MIN_INT];
const ANY = fc.oneof(
  fc.constantFrom(...EDGES),
  fc.bigInt({ min: -1000n, max: 1000n }),
  fc.bigInt({ min: -(2n ** 54n), max: 2n ** 54n }),
  fc.bigInt({ min: MIN_INT, max: MAX_INT }),
);

function orFailure(compute: () => Int | bigint): Int | "failure" {
  try {
    return compute();
  } catch (error) {
    if (error instanceof EvaluationFailure || error instanceof RangeError) return "failure";
    throw error;
  }
}

describe("ints", () => {
  it.each([
    ["+", addInt, (a: bigint, b: bigint) => a + b],
    ["-", subtractInt, (a: bigint, b: bigint) => a - b],
    ["*", multiplyInt, (a: bigint, b: bigint) => a * b],
    ["/", divideInt, (a: bigint, b: bigint) => a / b],
    ["%", moduloInt, (a: bigint, b: bigint) => a % b],
  ] as const)("%s is exact, normalised, and fails only where 64 bits do", (_, ours, exact) => {
    fc.assert(
      fc.property(ANY, ANY, (a, b) => {
        const expected = orFailure(() => toInt(exact(a, b)));
        expect(orFailure(() => ours(toInt(a), toInt(b)))).toBe(expected);
      }),
      { numRuns: 3000 },
    );
  });

  it("of doubles truncate, and fail beyond 64 bits", () => {
    fc.assert(
      fc.property(fc.double(), (value) => {
        const expected = orFailure(() => toInt(BigInt(Math.trunc(value))));
        expect(orFailure(() => intOfDouble(value))).toBe(expected);
      }),
    );
    expect(orFailure(() => intOfDouble(2 ** 63))).toBe("failure");
    expect(intOfDouble(-(2 ** 63))).toBe(MIN_INT);
    expect(Object.is(intOfDouble(-0), 0)).toBe(true);
  });
});
