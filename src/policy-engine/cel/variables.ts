// A policy's named expressions: lazy, in order (a later one may read earlier ones), and run at most once per scope. A broken
// one is a problem even when nothing reads it.
import { emptyUsage, type Variable } from "./compilation.ts";
import { compileTree } from "./compile.ts";
import { createPatternCache, PolicyPatterns } from "./functions/patterns.ts";
import { MAX_COST, MAX_VARIABLES } from "./limits.ts";
import { createParser, type Parser } from "./parser.ts";
import { type ExpressionProblem, problemOf, Refusal } from "./problem.ts";
import type { Run, Scope } from "./scope.ts";
import type { Term, Value } from "./term.ts";
import { totalUsage } from "./usage.ts";

/** The compiled variables of one policy. They memoise: one policy's rules are evaluated on one thread, scope by scope. */
export interface Variables {
  readonly byName: ReadonlyMap<string, Variable>;
  readonly parser: Parser;
  readonly patterns: PolicyPatterns;
}

export interface VariableProblem extends ExpressionProblem {
  /** The variable that has the problem. */
  variable: string;
}

export type CompiledVariables = { ok: true; variables: Variables } | { ok: false; problems: VariableProblem[] };

interface NamedExpression {
  readonly name: string;
  readonly expression: string;
}

/** Compiles a policy's variables; an empty list is what expressions without any need. Never throws for what a user wrote. */
export function compileVariables(
  list: readonly NamedExpression[],
  patterns = new PolicyPatterns(createPatternCache()),
): CompiledVariables {
  const byName = new Map<string, Variable>();
  const problems: VariableProblem[] = [];
  for (const { name, expression } of list.slice(0, MAX_VARIABLES + 1)) {
    try {
      refuseName(name, byName);
      byName.set(name, compileVariable(name, expression, byName, patterns));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      problems.push({ variable: name, ...problemOf(expression, error) });
    }
  }
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, variables: { byName, parser: createParser(byName), patterns } };
}

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

function refuseName(name: string, earlier: ReadonlyMap<string, Variable>): void {
  const nowhere = { start: 0, end: 0 };
  if (!NAME.test(name) || name in Object.prototype) throw new Refusal(nowhere, `"${name}" cannot be a variable's name`);
  if (earlier.has(name)) throw new Refusal(nowhere, `there is already a variable ${name}`);
  if (earlier.size >= MAX_VARIABLES) throw new Refusal(nowhere, `there are more than ${MAX_VARIABLES} variables`);
}

function compileVariable(
  name: string,
  source: string,
  earlier: ReadonlyMap<string, Variable>,
  patterns: PolicyPatterns,
): Variable {
  const parsed = createParser(earlier).parse(source);
  const usage = emptyUsage(patterns);
  const tree = compileTree(parsed.node, earlier, usage);
  parsed.check(tree.type);
  usage.cost = tree.cost;
  const { cost } = totalUsage(usage);
  if (cost > MAX_COST)
    throw new Refusal(
      { start: 0, end: source.length },
      `the variable costs up to ${cost} steps, over the limit of ${MAX_COST}`,
    );
  const { type, unit, size, constant } = tree;
  return { name, type, unit, size, constant, run: memoised(tree), usage };
}

/** Remembers the value of the last scope. A failure is not remembered: it is found again where it matters. */
function memoised(tree: Term): Run<Value> {
  if (tree.constant !== undefined) return tree.run;
  let lastScope: Scope | undefined;
  let lastValue: Value = false;
  return (scope) => {
    if (scope === lastScope) return lastValue;
    lastValue = tree.run(scope);
    lastScope = scope;
    return lastValue;
  };
}
