// What is known while one expression is compiled: which names it may use, and what it has used so far.

import type { PolicyPatterns } from "./functions/patterns.ts";
import type { ASTNode } from "./parser.ts";
import type { Run } from "./scope.ts";
import type { Term, Unit, Value, ValueType } from "./term.ts";

export interface Window {
  readonly function: "usedRatioMax" | "usedBytesMax";
  readonly windowMs: number;
}

/** A policy's named expression. It runs at most once per scope, and only when something reads it. */
export interface Variable {
  readonly name: string;
  readonly type: ValueType;
  readonly unit: Unit | undefined;
  readonly size: number;
  readonly constant: Value | undefined;
  readonly run: Run<Value>;
  readonly usage: Usage;
}

/** What an expression needs, and what it costs, without the variables that it reads. */
export interface Usage {
  readonly reads: Set<string>;
  readonly windows: Window[];
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
  return { reads: new Set(), windows: [], variables: new Set(), cost: 0, depth: 0, patternSize: 0, patterns };
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
