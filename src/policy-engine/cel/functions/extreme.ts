// math.greatest and math.least of two to four numbers; with a double among them the result is a double.
import { failRule } from "../failure.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import type { Scope } from "../scope.ts";
import { didYouMean } from "../suggestion.ts";
import { isNumeric, runOf, type Term, term } from "../term.ts";
import type { Int } from "./int.ts";

const MAX_NUMBERS = 4;

/** Compiles `math.greatest(…)` or `math.least(…)`. Throws Refusal. */
export function compileExtreme(node: ASTNode, name: string, numbers: readonly Term[]): Term {
  if (name !== "greatest" && name !== "least")
    throw new Refusal(node, `unknown function math.${name}()`, didYouMean(name, ["greatest", "least"]));
  if (numbers.length < 2 || numbers.length > MAX_NUMBERS || !numbers.every(isNumeric))
    throw new Refusal(node, `math.${name}() takes two to ${MAX_NUMBERS} numbers`);
  const isDouble = numbers.some(({ type }) => type === "double");
  const unit = numbers.every((number) => number.unit === numbers[0]?.unit) ? numbers[0]?.unit : undefined;
  const runs = numbers.map((number) => runOf<Int>(number));
  const isBetter = name === "greatest" ? (a: Int, b: Int) => a > b : (a: Int, b: Int) => a < b;
  const run = (scope: Scope) => {
    let best: Int | undefined;
    for (const number of runs) {
      const value = number(scope);
      if (Number.isNaN(value)) failRule(`math.${name}() of NaN is not possible`);
      if (best === undefined || isBetter(value, best)) best = value;
    }
    return isDouble ? Number(best) : (best as Int);
  };
  return term({ range: node, type: isDouble ? "double" : "int", unit, operands: numbers, run });
}
