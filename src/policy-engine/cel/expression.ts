// The contract of the CEL dialect: an expression is compiled once, with its problems by position, and then evaluated on one
// scope per volume. What compiles never loops without bound, never throws, and fails only as a value with a reason.
import { emptyUsage, totalUsage, type Variable, type Window } from "./compilation.ts";
import { compileTree } from "./compile.ts";
import {
  CompileError,
  EvaluationFailure,
  type ExpressionProblem,
  type FailureKind,
  problemOf,
  type SourceRange,
} from "./errors.ts";
import { createPatternCache, PolicyPatterns } from "./functions/patterns.ts";
import { type GrowthRead, growthWindowMs } from "./growth-reads.ts";
import { MAX_COST, MAX_VARIABLES } from "./limits.ts";
import { createParser, type Parser } from "./parser.ts";
import type { Run, Scope, Term, Value } from "./term.ts";

/** What an expression may be wanted for; a size is whole bytes, of an int or of a double rounded up. */
interface Results {
  bool: boolean;
  string: string;
  size: number;
}
export type Wanted = keyof Results;

type Evaluation<T> = { ok: true; value: T } | { ok: false; kind: FailureKind; message: string };

export interface Expression<T> {
  readonly source: string;
  /** Never throws. The scope is what variables are memoised by: pass the same one for all rules of a volume. */
  readonly evaluate: (scope: Scope) => Evaluation<T>;
  /** The windows that need history, those of the variables that it reads included. */
  readonly windows: readonly Window[];
  /** What it reads of growth, and its variables: over which time stands once the whole policy is compiled. */
  readonly growth: readonly GrowthRead[];
  /** The facts that it reads, such as "volume.usedRatio", those of its variables included. */
  readonly reads: readonly string[];
  /** Upper bound of the steps of one evaluation. */
  readonly cost: number;
}

export type Compiled<T> = { ok: true; expression: Expression<T> } | { ok: false; problems: ExpressionProblem[] };

/** Compiles one expression over a policy's variables. Never throws for what a user wrote. */
export function compileExpression<W extends Wanted>(
  source: string,
  wanted: W,
  variables: Variables,
): Compiled<Results[W]> {
  try {
    return { ok: true, expression: compile(source, wanted, variables) };
  } catch (error) {
    if (error instanceof CompileError) return { ok: false, problems: [problemOf(source, error)] };
    throw error;
  }
}

function compile<W extends Wanted>(source: string, wanted: W, variables: Variables): Expression<Results[W]> {
  const parsed = variables.parser.parse(source);
  const own = emptyUsage(variables.patterns);
  const tree = compileTree(parsed.node, variables.byName, own);
  const whole = { start: 0, end: source.length };
  refuseType(whole, wanted, tree);
  parsed.check(tree.type);
  const usage = totalUsage({ ...own, cost: tree.cost });
  if (wanted === "bool") refuseConstant(whole, tree, usage.reads);
  if (usage.cost > MAX_COST)
    throw new CompileError(whole, `the expression costs up to ${usage.cost} steps, over the limit of ${MAX_COST}`);
  return {
    source,
    evaluate: evaluator(tree, CONVERSIONS[wanted]),
    windows: usage.windows,
    growth: usage.growth,
    reads: [...usage.reads],
    cost: usage.cost,
  };
}

function refuseConstant(whole: SourceRange, tree: Term, reads: ReadonlySet<string>): void {
  if (tree.constant === undefined && reads.size > 0) return;
  const value = tree.constant === undefined ? "the same" : String(tree.constant === true);
  throw new CompileError(whole, `the rule is ${value} for every volume`, "compare a fact of volume or node");
}

const WANTED_TYPES: Readonly<Record<Wanted, readonly string[]>> = {
  bool: ["bool"],
  string: ["string"],
  size: ["int", "double"],
};
const WANTED_HINTS: Readonly<Record<Wanted, string>> = {
  bool: "compare it with something: volume.usedRatio >= 0.8",
  string: "make it a string: string(…), percent(…) or bytes(…)",
  size: "a size is a number of bytes: quantity('10Gi'), volume.usedBytes * 2",
};

function refuseType(whole: SourceRange, wanted: Wanted, tree: Term): void {
  if (WANTED_TYPES[wanted].includes(tree.type)) return;
  throw new CompileError(whole, `this is a ${tree.type}, a ${wanted} is needed here`, WANTED_HINTS[wanted]);
}

const CONVERSIONS: { readonly [W in Wanted]: (value: Value) => Evaluation<Results[W]> } = {
  bool: (value) => (value === true ? TRUE : FALSE),
  string: (value) => ({ ok: true, value: value as string }),
  size: (value) => {
    const bytes = Math.ceil(Number(value));
    if (Number.isSafeInteger(bytes) && bytes >= 0) return { ok: true, value: bytes };
    return { ok: false, kind: "RuleError", message: `a size of ${String(Number(value))} bytes is not possible` };
  },
};
/** Shared, so that evaluating a rule allocates nothing. */
const TRUE: Evaluation<boolean> = Object.freeze({ ok: true, value: true });
const FALSE: Evaluation<boolean> = Object.freeze({ ok: true, value: false });

function evaluator<T>(tree: Term, convert: (value: Value) => Evaluation<T>): (scope: Scope) => Evaluation<T> {
  const { run } = tree;
  return (scope) => {
    try {
      return convert(run(scope));
    } catch (failure) {
      if (failure instanceof EvaluationFailure) return { ok: false, kind: failure.kind, message: failure.message };
      throw failure;
    }
  };
}

// A policy's named expressions: lazy, in order (a later one may read earlier ones), and run at most once per scope. A broken
// one is a problem even when nothing reads it.

/** The compiled variables of one policy. They memoise: one policy's rules are evaluated on one thread, scope by scope. */
export interface Variables {
  readonly byName: ReadonlyMap<string, Variable>;
  readonly parser: Parser;
  readonly patterns: PolicyPatterns;
}

interface VariableProblem extends ExpressionProblem {
  /** The variable that has the problem. */
  variable: string;
}

type CompiledVariables = { ok: true; variables: Variables } | { ok: false; problems: VariableProblem[] };

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
      if (!(error instanceof CompileError)) throw error;
      problems.push({ variable: name, ...problemOf(expression, error) });
    }
  }
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, variables: { byName, parser: createParser(byName), patterns } };
}

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

function refuseName(name: string, earlier: ReadonlyMap<string, Variable>): void {
  const nowhere = { start: 0, end: 0 };
  if (!NAME.test(name) || name in Object.prototype)
    throw new CompileError(nowhere, `"${name}" cannot be a variable's name`);
  if (earlier.has(name)) throw new CompileError(nowhere, `there is already a variable ${name}`);
  if (earlier.size >= MAX_VARIABLES) throw new CompileError(nowhere, `there are more than ${MAX_VARIABLES} variables`);
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
    throw new CompileError(
      { start: 0, end: source.length },
      `the variable costs up to ${cost} steps, over the limit of ${MAX_COST}`,
    );
  const { type, unit, size, constant, growth } = tree;
  return { name, source, type, unit, size, constant, growth, run: memoised(tree), usage };
}

/** The times over which these expressions read growth, milliseconds. Ask once all expressions of the policy are compiled. */
export function growthWindowsOf(expressions: readonly Pick<Expression<unknown>, "growth">[]): number[] {
  return [...new Set(expressions.flatMap(({ growth }) => growth.map(growthWindowMs)))];
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
