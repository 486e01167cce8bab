// Comparisons that look the wrong way, or at the wrong order of magnitude.
import { MIB } from "../../contracts/quantities/quantity.ts";
import { type Comparison, looksTo } from "./branches.ts";
import type { Lint } from "./linted-policy.ts";

/** An Extend that holds while a volume is empty, or a Shrink that holds while it is full. */
export const lintReversed: Lint = ({ rules }) =>
  rules.flatMap(({ compiled: { name, action }, branches }) => {
    const [wanted, verb] = action === "Extend" ? (["full", "extends"] as const) : (["empty", "shrinks"] as const);
    const reversed = branches
      .filter(({ hasMoreOfFill }) => !hasMoreOfFill)
      .map(({ comparisons }) => comparisons.filter((one) => looksTo(one) !== undefined))
      .find((ofFill) => ofFill.length > 0 && ofFill.every((one) => looksTo(one) !== wanted))?.[0];
    return reversed === undefined ? [] : `rule ${name} ${verb} while ${textOf(reversed)}: is the comparison reversed?`;
  });

const BYTES = new Set(["usedBytes", "usedBytesMax", "availableBytes", "capacityBytes", "nominalBytes"]);

/** Bytes compared with what was to be gibibytes, or percent. */
export const lintSmallBytes: Lint = ({ rules }) =>
  rules.flatMap(({ compiled: { name }, branches }) => {
    const small = branches
      .flatMap(({ comparisons }) => comparisons)
      .find((one) => BYTES.has(one.name) && one.bound > 0 && one.bound < MIB);
    if (small === undefined) return [];
    return `rule ${name}: ${textOf(small)} compares bytes: write a size as quantity('10Gi')`;
  });

function textOf({ fact, operator, bound }: Comparison): string {
  return `${fact} ${operator} ${bound}`;
}
