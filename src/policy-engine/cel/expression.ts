// The contract of the CEL dialect: an expression is compiled once, with its problems by position, and then evaluated on one
// scope per volume. What compiles never loops without bound, never throws, and fails only as a value with a reason.
import { emptyUsage, type Window } from "./compilation.ts";
import { compileTree } from "./compile.ts";
import { EvaluationFailure, type FailureKind } from "./failure.ts";
import { MAX_COST } from "./limits.ts";
import { type ExpressionProblem, problemOf, Refusal, type SourceRange } from "./problem.ts";
import type { Scope } from "./scope.ts";
import type { Term, Value } from "./term.ts";
import { totalUsage } from "./usage.ts";
import type { Variables } from "./variables.ts";

/** What an expression may be wanted for; a size is whole bytes, of an int or of a double rounded up. */
interface Results {
  bool: boolean;
  string: string;
  size: number;
}
export type Wanted = keyof Results;

export type Evaluation<T> = { ok: true; value: T } | { ok: false; kind: FailureKind; message: string };

export interface Expression<T> {
  readonly source: string;
  /** Never throws. The scope is what variables are memoised by: pass the same one for all rules of a volume. */
  readonly evaluate: (scope: Scope) => Evaluation<T>;
  /** The windows that need history, those of the variables that it reads included. */
  readonly windows: readonly Window[];
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
    if (error instanceof Refusal) return { ok: false, problems: [problemOf(source, error)] };
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
    throw new Refusal(whole, `the expression costs up to ${usage.cost} steps, over the limit of ${MAX_COST}`);
  return {
    source,
    evaluate: evaluator(tree, CONVERSIONS[wanted]),
    windows: usage.windows,
    reads: [...usage.reads],
    cost: usage.cost,
  };
}

function refuseConstant(whole: SourceRange, tree: Term, reads: ReadonlySet<string>): void {
  if (tree.constant === undefined && reads.size > 0) return;
  const value = tree.constant === undefined ? "the same" : String(tree.constant === true);
  throw new Refusal(whole, `the rule is ${value} for every volume`, "compare a fact of volume or node");
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
  throw new Refusal(whole, `this is a ${tree.type}, a ${wanted} is needed here`, WANTED_HINTS[wanted]);
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
