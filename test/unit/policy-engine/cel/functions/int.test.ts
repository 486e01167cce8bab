// Our ints, which are numbers where that is exact, against plain bigint arithmetic.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { EvaluationFailure } from "../../../../../src/policy-engine/cel/errors.ts";
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
} from "../../../../../src/policy-engine/cel/functions/int.ts";
import { property } from "../../../../harness/property.ts";

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
  const operators = fc.constantFrom(
    { sign: "+", ours: addInt, exact: (a: bigint, b: bigint) => a + b },
    { sign: "-", ours: subtractInt, exact: (a: bigint, b: bigint) => a - b },
    { sign: "*", ours: multiplyInt, exact: (a: bigint, b: bigint) => a * b },
    { sign: "/", ours: divideInt, exact: (a: bigint, b: bigint) => a / b },
    { sign: "%", ours: moduloInt, exact: (a: bigint, b: bigint) => a % b },
  );
  property(
    "are exact, normalised, and fail only where 64 bits do, whatever is done with them",
    {
      runs: 15_000,
      reaches: { "+": 0.1, "-": 0.1, "*": 0.1, "/": 0.1, "%": 0.1, "a failure": 0.05, "a result": 0.5 },
    },
    [operators, ANY, ANY],
    (reach, { sign, ours, exact }, a, b) => {
      const expected = orFailure(() => toInt(exact(a, b)));
      reach(sign);
      reach(expected === "failure" ? "a failure" : "a result");
      expect(orFailure(() => ours(toInt(a), toInt(b)))).toBe(expected);
    },
  );

  property(
    "of doubles truncate, and fail beyond 64 bits, whatever the double",
    { runs: 500, reaches: { "a failure": 0.1, "a result": 0.1 } },
    [fc.oneof(fc.double(), fc.double({ min: -(2 ** 64), max: 2 ** 64 }))],
    (reach, value) => {
      const expected = orFailure(() => toInt(BigInt(Math.trunc(value))));
      reach(expected === "failure" ? "a failure" : "a result");
      expect(orFailure(() => intOfDouble(value))).toBe(expected);
    },
  );

  it("of doubles at the edges truncate, and fail beyond 64 bits", () => {
    expect(orFailure(() => intOfDouble(2 ** 63))).toBe("failure");
    expect(orFailure(() => intOfDouble(-(2 ** 63)))).toBe("failure");
    expect(intOfDouble(-(2 ** 63) + 1024)).toBe(MIN_INT + 1024n);
    expect(Object.is(intOfDouble(-0), 0)).toBe(true);
  });
});
