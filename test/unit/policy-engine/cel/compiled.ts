// Shortcuts for these suites: compile or fail loudly.

import type { ExpressionProblem } from "../../../../src/policy-engine/cel/errors.ts";
import {
  compileExpression,
  compileVariables,
  type Expression,
  type Variables,
  type Wanted,
} from "../../../../src/policy-engine/cel/expression.ts";

type NamedExpressions = readonly { name: string; expression: string }[];

export function variablesOf(list: NamedExpressions = []): Variables {
  const compiled = compileVariables(list);
  if (!compiled.ok) throw new Error(`variables do not compile: ${JSON.stringify(compiled.problems)}`);
  return compiled.variables;
}

export function rule(source: string, variables: NamedExpressions = []): Expression<boolean> {
  const compiled = compileExpression(source, "bool", variablesOf(variables));
  if (!compiled.ok) throw new Error(`${source} does not compile: ${JSON.stringify(compiled.problems)}`);
  return compiled.expression;
}

/** The only problem of a source that must not compile. */
export function problemIn(
  source: string,
  wanted: Wanted = "bool",
  variables: NamedExpressions = [],
): ExpressionProblem {
  const compiled = compileExpression(source, wanted, variablesOf(variables));
  if (compiled.ok) throw new Error(`${source} compiles`);
  const [problem] = compiled.problems;
  if (problem === undefined) throw new Error(`${source} is refused without a problem`);
  return problem;
}
