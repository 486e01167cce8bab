// Kubernetes' CEL library of quantities, as far as our rules need it: quantity(), isQuantity(), and comparisons. The grammar and
// the arithmetic are those of k8s.io/apimachinery/pkg/api/resource; a size in our own sense is src/contracts/quantities' matter.
import type { Environment } from "@marcbachmann/cel-js";

const PATTERN = /^([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE])i|([numkMGTPE])|[eE]([+-]?\d{1,3}))?$/;
const BINARY_POWERS: Readonly<Record<string, number>> = { K: 1, M: 2, G: 3, T: 4, P: 5, E: 6 };
const DECIMAL_POWERS: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
/** A quantity has at most this many decimal places; what is finer is rounded away from 0. */
const PLACES = 9;
const NANO = 10n ** BigInt(PLACES);
/** The largest magnitude, in whole units; what is larger counts as this. */
const LARGEST = 2n ** 63n - 1n;

/** A parsed quantity: exact, in billionths. */
class Quantity {
  readonly nano: bigint;

  constructor(nano: bigint) {
    this.nano = nano;
  }
}

/** Adds the library to an environment. An unreadable text is an error of the rule, as in kube-apiserver. */
export function registerQuantities(environment: Environment): Environment {
  return environment
    .registerType("Quantity", Quantity)
    .registerFunction("isQuantity(string): bool", (text: string) => parseNano(text) !== undefined)
    .registerFunction("quantity(string): Quantity", quantityOf)
    .registerFunction("Quantity.compareTo(Quantity): int", (a: Quantity, b: Quantity) => compare(a, b))
    .registerFunction("Quantity.isLessThan(Quantity): bool", (a: Quantity, b: Quantity) => compare(a, b) < 0n)
    .registerFunction("Quantity.isGreaterThan(Quantity): bool", (a: Quantity, b: Quantity) => compare(a, b) > 0n);
}

function compare(a: Quantity, b: Quantity): bigint {
  return a.nano < b.nano ? -1n : a.nano > b.nano ? 1n : 0n;
}

function quantityOf(text: string): Quantity {
  const nano = parseNano(text);
  if (nano === undefined) throw new Error(`quantity: ${JSON.stringify(text)} is not one, such as 500m, 1.5 or 10Gi`);
  return new Quantity(nano);
}

function parseNano(text: string): bigint | undefined {
  const match = PATTERN.exec(text);
  if (match === null) return undefined;
  const [, sign, digits = "", binary, decimal, exponent] = match;
  const [whole = "", fraction = ""] = digits.split(".");
  const power = (exponent === undefined ? (DECIMAL_POWERS[decimal ?? ""] ?? 0) : Number(exponent)) - fraction.length;
  const factor = binary === undefined ? 1n : 1024n ** BigInt(BINARY_POWERS[binary] ?? 0);
  const magnitude = scaled(BigInt(whole + fraction) * factor, power + PLACES);
  const largest = LARGEST * NANO;
  const capped = magnitude > largest ? largest : magnitude;
  return sign === "-" ? -capped : capped;
}

/** digits × 10^power, rounded up. */
function scaled(digits: bigint, power: number): bigint {
  if (power >= 0) return digits * 10n ** BigInt(power);
  const divisor = 10n ** BigInt(-power);
  return (digits + divisor - 1n) / divisor;
}
