// A typed piece of a compiled expression: the type that the checker derived, what it costs, and the closure that runs it.
import { EvaluationFailure } from "./failure.ts";
import type { Int } from "./functions/int.ts";
import { Refusal, type SourceRange } from "./problem.ts";
import type { Run, Scope } from "./scope.ts";

export type ScalarType = "bool" | "string" | "int" | "double" | "duration" | "timestamp";
export type ListType = `list<${ScalarType}>`;
/** Maps have string keys. */
export type MapType = `map<${ScalarType}>`;
export type ValueType = ScalarType | ListType | MapType;

/** What a number counts. It travels along so that nonsense such as a ratio compared with bytes is found. */
export type Unit = "ratio" | "bytes" | "inodes" | "seconds";

/** Durations and timestamps are milliseconds. */
export type Value = boolean | string | Int | readonly Value[] | Readonly<Record<string, unknown>>;

export interface Term {
  readonly range: SourceRange;
  readonly type: ValueType;
  readonly unit: Unit | undefined;
  /** Upper bound of the steps of one run. */
  readonly cost: number;
  /** Upper bound of the items of a list or map. */
  readonly size: number;
  /** The value, when it is the same for all facts. */
  readonly constant: Value | undefined;
  readonly run: Run<Value>;
}

export interface TermParts {
  range: SourceRange;
  type: ValueType;
  operands: readonly Term[];
  run: Run<Value>;
  unit?: Unit | undefined;
  size?: number;
  /** Steps beside those of the operands; 1 when absent. */
  cost?: number;
}

/** Constant operands never look at their scope. */
const NO_SCOPE = undefined as unknown as Scope;

/** A term over operands. Of constant operands it is computed at once, and refused where that fails: `1 / 0`, `duration('1hh')`. */
export function term(parts: TermParts): Term {
  const { range, type, operands, run, unit, size = 0 } = parts;
  const cost = operands.reduce((sum, operand) => sum + operand.cost, parts.cost ?? 1);
  const isConstant = operands.length > 0 && operands.every((operand) => operand.constant !== undefined);
  if (!isConstant) return { range, type, unit, cost, size, constant: undefined, run };
  return constantTerm(range, type, foldConstant(range, run), unit, size);
}

function foldConstant(range: SourceRange, run: Run<Value>): Value {
  try {
    return run(NO_SCOPE);
  } catch (error) {
    if (error instanceof EvaluationFailure) throw new Refusal(range, error.message);
    throw error;
  }
}

export function constantTerm(range: SourceRange, type: ValueType, constant: Value, unit?: Unit, size = 0): Term {
  return { range, type, unit, cost: 1, size, constant, run: () => constant };
}

/** The closure of a term whose type is known: int terms run to Int, double ones to number, and so on. */
export function runOf<T>(operand: Term): Run<T> {
  return operand.run as unknown as Run<T>;
}

export function isNumeric(operand: Term): boolean {
  return operand.type === "int" || operand.type === "double";
}

/** The item type of a list or map, or undefined for a scalar. */
export function itemTypeOf(type: ValueType): ScalarType | undefined {
  const match = /^(?:list|map)<(\w+)>$/.exec(type);
  return match?.[1] as ScalarType | undefined;
}

export function isScalar(type: ValueType): type is ScalarType {
  return itemTypeOf(type) === undefined;
}
