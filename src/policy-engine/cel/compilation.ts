// What is known while one expression is compiled: which names it may use, and what it has used so far.
import type { PolicyPatterns } from "./functions/patterns.ts";
import type { GrowthRead } from "./growth-reads.ts";
import type { ASTNode } from "./parser.ts";
import type { Run, Term, Unit, Value, ValueType } from "./term.ts";

export interface Window {
  readonly function: "usedRatioMax" | "usedBytesMax";
  readonly windowMs: number;
}

/** A policy's named expression. It runs at most once per scope, and only when something reads it. */
export interface Variable {
  readonly name: string;
  readonly source: string;
  readonly type: ValueType;
  readonly unit: Unit | undefined;
  readonly size: number;
  readonly constant: Value | undefined;
  /** Where its value comes from growth. */
  readonly growth: readonly GrowthRead[];
  readonly run: Run<Value>;
  readonly usage: Usage;
}

/** What an expression needs, and what it costs, without the variables that it reads. */
export interface Usage {
  readonly reads: Set<string>;
  readonly windows: Window[];
  /** All that it reads of growth, in what is compared and elsewhere. */
  readonly growth: GrowthRead[];
  readonly variables: Set<Variable>;
  cost: number;
  /** Calls inside one another when it runs, variables included. */
  depth: number;
  /** Of all its patterns, in instructions. */
  patternSize: number;
  /** Those of the whole policy. */
  readonly patterns: PolicyPatterns;
}

/** Nothing used yet. */
export function emptyUsage(patterns: PolicyPatterns): Usage {
  return {
    reads: new Set(),
    windows: [],
    growth: [],
    variables: new Set(),
    cost: 0,
    depth: 0,
    patternSize: 0,
    patterns,
  };
}

/** The iteration variable of a comprehension. */
export interface Local {
  readonly type: ValueType;
  readonly run: Run<Value>;
}

export interface Compilation {
  readonly variables: ReadonlyMap<string, Variable>;
  readonly locals: ReadonlyMap<string, Local>;
  readonly usage: Usage;
  /** How deep the node stands in the expression. */
  readonly depth: number;
  /** Compiles an operand. */
  readonly compile: (node: ASTNode) => Term;
  /** Compiles an operand that sees one more local. */
  readonly compileWith: (name: string, local: Local, node: ASTNode) => Term;
}

/** The usage with all variables that it reaches, themselves reached through variables included. */
export function totalUsage(own: Usage): Usage {
  const total = {
    ...own,
    reads: new Set(own.reads),
    windows: [...own.windows],
    growth: [...own.growth],
    variables: new Set<Variable>(),
  };
  for (const variable of own.variables) addVariable(total, variable);
  return total;
}

function addVariable(total: Usage, variable: Variable): void {
  if (total.variables.has(variable)) return;
  total.variables.add(variable);
  total.cost += variable.usage.cost;
  for (const fact of variable.usage.reads) total.reads.add(fact);
  total.growth.push(...variable.usage.growth);
  for (const window of variable.usage.windows) {
    const isKnown = total.windows.some((one) => one.function === window.function && one.windowMs === window.windowMs);
    if (!isKnown) total.windows.push(window);
  }
  for (const other of variable.usage.variables) addVariable(total, other);
}
