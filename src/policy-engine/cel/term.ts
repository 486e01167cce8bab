// A typed piece of a compiled expression (the type that the checker derived, what it costs, and the closure that runs it), and the scope
// that it runs on.
import { CompileError, EvaluationFailure, type SourceRange } from "./errors.ts";
import type { Int } from "./functions/int.ts";
import type { GrowthRead } from "./growth-reads.ts";

// What one evaluation sees: the facts about one volume at one instant. A scope is immutable and belongs to one evaluation
// round: variables are memoised by its identity, so new facts need a new scope object (getters on its members are fine).

/** History that a window lacks; the reason is for people. */
export interface MissingHistory {
  missing: string;
}

/** A number that was not measured is undefined, never 0: an expression that reads it fails instead of guessing. */
type Measured = number | undefined;

export interface VolumeScope {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly storageClassName: string;
  readonly backend: string;
  readonly fsType: string;
  readonly nominalBytes: Measured;
  readonly capacityBytes: Measured;
  readonly usedBytes: Measured;
  readonly availableBytes: Measured;
  readonly usedRatio: Measured;
  /** 0 means unlimited, as on btrfs; then inodesUsedRatio is 0. */
  readonly inodesTotal: Measured;
  readonly inodesUsed: Measured;
  readonly inodesUsedRatio: Measured;
  readonly ageSeconds: Measured;
}

export interface NodeScope {
  /** Empty while the volume is on no node. */
  readonly name: string;
  readonly freeBytes: Measured;
  readonly ioUtilizationRatio: Measured;
}

export interface Scope {
  readonly volume: VolumeScope;
  readonly node: NodeScope;
  readonly nowMs: number;
  /** The most bytes used at any time in the last windowMs. */
  readonly usedBytesMax: (windowMs: number) => number | MissingHistory;
  /** The trend of the last windowMs, bytes a second; negative while files are deleted. */
  readonly growthBytesPerSecond: (windowMs: number) => number | MissingHistory;
}

/** One compiled step: its value on a scope. Throws EvaluationFailure. */
export type Run<T> = (scope: Scope) => T;

export type ScalarType = "bool" | "string" | "int" | "double" | "duration" | "timestamp";
type ListType = `list<${ScalarType}>`;
/** Maps have string keys. */
type MapType = `map<${ScalarType}>`;
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
  /** Where its value comes from growth; of a comparison nowhere, since it says itself how far it looks ahead. */
  readonly growth: readonly GrowthRead[];
  readonly run: Run<Value>;
}

interface TermParts {
  range: SourceRange;
  type: ValueType;
  operands: readonly Term[];
  run: Run<Value>;
  unit?: Unit | undefined;
  size?: number;
  growth?: readonly GrowthRead[];
  /** Steps in addition to those of the operands; 1 when absent. */
  cost?: number;
}

/** Constant operands never look at their scope. */
const NO_SCOPE = undefined as unknown as Scope;

/** A term over operands. Of constant operands it is computed at once, and refused where that fails: `1 / 0`, `duration('1hh')`. */
export function term(parts: TermParts): Term {
  const { range, type, operands, run, unit, size = 0 } = parts;
  const cost = operands.reduce((sum, operand) => sum + operand.cost, parts.cost ?? 1);
  const isConstant = operands.length > 0 && operands.every((operand) => operand.constant !== undefined);
  if (!isConstant) return { range, type, unit, cost, size, constant: undefined, growth: growthOf(parts), run };
  return constantTerm(range, type, foldConstant(range, run), unit, size);
}

/** Shared by all that read none. */
const NO_GROWTH: readonly GrowthRead[] = [];

function growthOf({ growth, type, operands }: TermParts): readonly GrowthRead[] {
  if (growth !== undefined) return growth;
  if (type !== "int" && type !== "double") return NO_GROWTH;
  const read = operands.filter((operand) => operand.growth.length > 0);
  return read.length === 0 ? NO_GROWTH : read.flatMap((operand) => operand.growth);
}

function foldConstant(range: SourceRange, run: Run<Value>): Value {
  try {
    return run(NO_SCOPE);
  } catch (error) {
    if (error instanceof EvaluationFailure) throw new CompileError(range, error.message);
    throw error;
  }
}

export function constantTerm(range: SourceRange, type: ValueType, constant: Value, unit?: Unit, size = 0): Term {
  return { range, type, unit, cost: 1, size, constant, growth: NO_GROWTH, run: () => constant };
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
