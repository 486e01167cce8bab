// CEL's int: exact 64-bit signed integers that are plain numbers as long as a number is exact, and bigints only beyond 2^53.
// Every value here is normalised, so equal ints are identical (===), and JavaScript compares mixed ones exactly.
import { failRule } from "../errors.ts";

export type Int = number | bigint;

export const MAX_INT = 2n ** 63n - 1n;
export const MIN_INT = -(2n ** 63n);

/** The int of an exact result. Throws when it does not fit in 64 bits. */
export function toInt(exact: bigint): Int {
  if (exact > MAX_INT || exact < MIN_INT) failRule(`integer overflow: ${exact} does not fit in 64 bits`);
  const asNumber = Number(exact);
  return Number.isSafeInteger(asNumber) ? asNumber : exact;
}

export function addInt(left: Int, right: Int): Int {
  if (typeof left === "number" && typeof right === "number") {
    const sum = left + right;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return toInt(BigInt(left) + BigInt(right));
}

export function subtractInt(left: Int, right: Int): Int {
  if (typeof left === "number" && typeof right === "number") {
    const difference = left - right;
    if (Number.isSafeInteger(difference)) return difference;
  }
  return toInt(BigInt(left) - BigInt(right));
}

export function multiplyInt(left: Int, right: Int): Int {
  if (typeof left === "number" && typeof right === "number") {
    const product = left * right;
    if (Number.isSafeInteger(product)) return product + 0; // CEL's int has no -0
  }
  return toInt(BigInt(left) * BigInt(right));
}

/** Truncates toward zero. */
export function divideInt(left: Int, right: Int): Int {
  if (right === 0) failRule("division by zero");
  if (typeof left === "number" && typeof right === "number") return (left - (left % right)) / right + 0;
  return toInt(BigInt(left) / BigInt(right));
}

/** The remainder has the sign of the dividend. */
export function moduloInt(left: Int, right: Int): Int {
  if (right === 0) failRule("modulo by zero");
  if (typeof left === "number" && typeof right === "number") return (left % right) + 0;
  return toInt(BigInt(left) % BigInt(right));
}

/**
 * Truncates toward zero. Throws for NaN, infinities and what does not fit in 64 bits; for -2^63, too, which other doubles are rounded to
 * (the specification's conversions.textproto, double_int_min_range).
 */
export function intOfDouble(value: number): Int {
  if (Number.isSafeInteger(value)) return value + 0;
  if (!Number.isFinite(value)) failRule(`int(${value}) is not possible`);
  if (value === Number(MIN_INT)) failRule(`integer overflow: ${value} does not fit in 64 bits`);
  return toInt(BigInt(Math.trunc(value)));
}
