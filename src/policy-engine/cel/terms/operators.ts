// Operators on two operands, but for logic, and unary minus. First + - * / %: an int with a double gives a double, as policies want; cel-
// spec's own overloads are as specified.
import type { Compilation } from "../compilation.ts";
import { CompileError, failRule } from "../errors.ts";
import { addInt, divideInt, type Int, MIN_INT, moduloInt, multiplyInt, subtractInt, toInt } from "../functions/int.ts";
import { inDurationRange, inTimestampRange } from "../functions/time.ts";
import { lookAhead } from "../growth-reads.ts";
import { MAX_LITERAL_ITEMS, MAX_STRING_CHARS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import {
  constantTerm,
  isNumeric,
  isScalar,
  itemTypeOf,
  type Run,
  runOf,
  type Scope,
  type Term,
  term,
  type Unit,
  type ValueType,
} from "../term.ts";

export type ArithmeticOperator = "+" | "-" | "*" | "/" | "%";

type Combine = (left: never, right: never) => Int | string;
interface Overload {
  readonly left: ValueType;
  readonly right: ValueType;
  readonly result: ValueType;
  readonly combine: Combine;
}

const addDoubles = (left: Int, right: Int) => Number(left) + Number(right);
const subtractDoubles = (left: Int, right: Int) => Number(left) - Number(right);
const multiplyDoubles = (left: Int, right: Int) => Number(left) * Number(right);
const divideDoubles = (left: Int, right: Int) => Number(left) / Number(right);

const OVERLOADS: Readonly<Record<ArithmeticOperator, readonly Overload[]>> = {
  "+": [
    { left: "int", right: "int", result: "int", combine: addInt },
    ...doubles(addDoubles),
    { left: "string", right: "string", result: "string", combine: concatenate },
    {
      left: "duration",
      right: "duration",
      result: "duration",
      combine: (a: number, b: number) => inDurationRange(a + b),
    },
    {
      left: "timestamp",
      right: "duration",
      result: "timestamp",
      combine: (a: number, b: number) => inTimestampRange(a + b),
    },
  ],
  "-": [
    { left: "int", right: "int", result: "int", combine: subtractInt },
    ...doubles(subtractDoubles),
    {
      left: "duration",
      right: "duration",
      result: "duration",
      combine: (a: number, b: number) => inDurationRange(a - b),
    },
    {
      left: "timestamp",
      right: "duration",
      result: "timestamp",
      combine: (a: number, b: number) => inTimestampRange(a - b),
    },
    {
      left: "timestamp",
      right: "timestamp",
      result: "duration",
      combine: (a: number, b: number) => inDurationRange(a - b),
    },
  ],
  "*": [{ left: "int", right: "int", result: "int", combine: multiplyInt }, ...doubles(multiplyDoubles)],
  "/": [{ left: "int", right: "int", result: "int", combine: divideInt }, ...doubles(divideDoubles)],
  "%": [{ left: "int", right: "int", result: "int", combine: moduloInt }],
};

/** The overloads that give a double. */
function doubles(combine: (left: Int, right: Int) => number): Overload[] {
  return [
    { left: "double", right: "double", result: "double", combine },
    { left: "int", right: "double", result: "double", combine },
    { left: "double", right: "int", result: "double", combine },
  ];
}

function concatenate(left: string, right: string): string {
  const chars = left.length + right.length;
  if (chars <= MAX_STRING_CHARS) return left + right;
  failRule(`a string of ${chars} characters is over the limit of ${MAX_STRING_CHARS}`);
}

/** Compiles `left operator right`. Throws CompileError. */
export function compileArithmetic(node: ASTNode, operator: ArithmeticOperator, left: Term, right: Term): Term {
  if (operator === "+" && itemTypeOf(left.type) !== undefined) return compileListConcatenation(node, left, right);
  const overload = OVERLOADS[operator].find((one) => one.left === left.type && one.right === right.type);
  if (overload === undefined) throw noOverload(node, operator, left, right);
  if (operator === "/" && overload.result === "int") refuseTruncatedRatio(node, left, right);
  if (operator === "*") {
    noteSecondsOfGrowth(left, right);
    noteSecondsOfGrowth(right, left);
  }
  return term({
    range: node,
    type: overload.result,
    unit: unitOf(operator, left, right),
    operands: [left, right],
    run: combineRuns(left, right, overload.combine as (left: Int, right: Int) => Int | string),
  });
}

/** Less is a margin, and not a time to look ahead: growth * 1.5. */
const MIN_SECONDS_AHEAD = 60;

/** What is written in so many seconds. */
function noteSecondsOfGrowth({ growth, unit }: Term, { constant }: Term): void {
  const seconds = Number(constant);
  if (unit === undefined && constant !== undefined && seconds >= MIN_SECONDS_AHEAD) lookAhead(growth, seconds);
}

function combineRuns(left: Term, right: Term, combine: (left: Int, right: Int) => Int | string) {
  const leftRun = runOf<Int>(left);
  const rightRun = runOf<Int>(right);
  return (scope: Parameters<typeof leftRun>[0]) => combine(leftRun(scope), rightRun(scope));
}

/** Sums and differences keep the unit; products and quotients have another one, and so has a sum of ratios. */
function unitOf(operator: ArithmeticOperator, left: Term, right: Term): Unit | undefined {
  if (operator !== "+" && operator !== "-") return undefined;
  const unit = left.unit ?? right.unit;
  const agrees = (side: Term) => side.unit === unit || (side.unit === undefined && side.constant !== undefined);
  return unit !== "ratio" && agrees(left) && agrees(right) ? unit : undefined;
}

const RATIO_HINTS: Partial<Record<Unit, string>> = {
  bytes: "the result would be 0 or 1: use volume.usedRatio, or divide doubles: double(a) / double(b)",
  inodes: "the result would be 0 or 1: use volume.inodesUsedRatio, or divide doubles: double(a) / double(b)",
};

function refuseTruncatedRatio(node: ASTNode, left: Term, right: Term): void {
  const hint = left.unit !== undefined && left.unit === right.unit ? RATIO_HINTS[left.unit] : undefined;
  if (hint !== undefined)
    throw new CompileError(node, `/ of two whole numbers of ${left.unit} drops the fraction`, hint);
}

function noOverload(node: ASTNode, operator: string, left: Term, right: Term): CompileError {
  const message = `${left.type} ${operator} ${right.type} is not defined`;
  if (left.type === "duration" && right.type === "timestamp")
    return new CompileError(node, message, "write the timestamp first: now + duration('1h')");
  if (operator === "+" && (left.type === "string" || right.type === "string"))
    return new CompileError(node, message, "make both strings: string(…), percent(…) or bytes(…)");
  if (operator === "%" && isNumeric(left) && isNumeric(right))
    return new CompileError(node, message, "% is the remainder of two ints; ratios are 0..1: write 0.8 instead of 80%");
  return new CompileError(node, message);
}

function compileListConcatenation(node: ASTNode, left: Term, right: Term): Term {
  if (left.type !== right.type || !left.type.startsWith("list<")) throw noOverload(node, "+", left, right);
  const size = left.size + right.size;
  if (size > MAX_LITERAL_ITEMS)
    throw new CompileError(node, `a list of up to ${size} items is over the limit of ${MAX_LITERAL_ITEMS}`);
  const leftRun = runOf<readonly Int[]>(left);
  const rightRun = runOf<readonly Int[]>(right);
  const run = (scope: Parameters<typeof leftRun>[0]) => [...leftRun(scope), ...rightRun(scope)];
  return term({ range: node, type: left.type, operands: [left, right], run, size, cost: 1 + size });
}

/** Compiles `-operand`. Throws CompileError. */
export function compileNegation(node: ASTNode, operandNode: ASTNode, context: Compilation): Term {
  // The smallest int is written as the negation of a literal beyond int.
  if (operandNode.op === "value" && typeof operandNode.args === "bigint" && -operandNode.args === MIN_INT)
    return constantTerm(node, "int", MIN_INT);
  const operand = context.compile(operandNode);
  if (operand.type === "int") {
    const run = runOf<Int>(operand);
    const negate = (value: Int) => (typeof value === "number" ? 0 - value : toInt(-value));
    return term({
      range: node,
      type: "int",
      unit: operand.unit,
      operands: [operand],
      run: (scope) => negate(run(scope)),
    });
  }
  if (operand.type !== "double") throw new CompileError(node, `-${operand.type} is not defined`);
  const run = runOf<number>(operand);
  return term({ range: node, type: "double", operands: [operand], run: (scope) => -run(scope) });
}

// == != < <= > >= and in. An int and a double are compared exactly by size, as in Kubernetes; everything else only with its
// own type. A literal that can never be reached by a ratio is refused.

export type ComparisonOperator = "==" | "!=" | "<" | "<=" | ">" | ">=";

/** Compiles `left operator right`. Throws CompileError. */
export function compileComparison(node: ASTNode, operator: ComparisonOperator, left: Term, right: Term): Term {
  refuseUnreachableRatio(node, left, right);
  refuseUnreachableRatio(node, right, left);
  if (left.unit !== undefined && right.unit !== undefined && left.unit !== right.unit)
    throw new CompileError(node, `${left.unit} compared with ${right.unit}`, "compare two values of one unit");
  refuseTypes(node, operator, left, right);
  noteHorizon(left, right);
  noteHorizon(right, left);
  const run =
    right.constant === undefined ? compareRuns(operator, left, right) : compareConstant(operator, left, right);
  return term({ range: node, type: "bool", operands: [left, right], run });
}

/** A time until the volume is full, compared with a literal. */
function noteHorizon({ growth, unit }: Term, { constant }: Term): void {
  if (unit === "seconds" && typeof constant === "number") lookAhead(growth, constant);
}

function refuseUnreachableRatio(node: ASTNode, ratio: Term, literal: Term): void {
  if (ratio.unit !== "ratio" || literal.constant === undefined || !isNumeric(literal)) return;
  const value = Number(literal.constant);
  if (value >= 0 && value <= 1) return;
  const hint = value >= 2 && value <= 100 ? `ratios are 0..1: write ${value / 100}` : "ratios are 0..1";
  throw new CompileError(node, `a ratio compared with ${value} is the same for every volume`, hint);
}

function refuseTypes(node: ASTNode, operator: ComparisonOperator, left: Term, right: Term): void {
  const message = `${left.type} ${operator} ${right.type} is not defined`;
  const isEquality = operator === "==" || operator === "!=";
  if (isNumeric(left) && isNumeric(right)) {
    if (!isEquality || left.type === right.type) return;
    throw new CompileError(node, message, "make both doubles: 1.0 instead of 1, or double(…)");
  }
  if (left.type !== right.type) throw new CompileError(node, message, typeHint(left, right));
  if (!isScalar(left.type)) throw new CompileError(node, message, "compare their items");
  const isOrdered = left.type === "duration" || left.type === "timestamp";
  if (!isEquality && !isOrdered) throw new CompileError(node, message, `only == and != compare ${left.type}s`);
}

function typeHint(left: Term, right: Term): string | undefined {
  const types = [left.type, right.type];
  if (types.includes("duration") && (left.unit ?? right.unit) === "seconds") return "write seconds: 3600.0";
  if (!types.includes("string") || !(isNumeric(left) || isNumeric(right))) return undefined;
  return (left.unit ?? right.unit) === "ratio"
    ? "write a ratio without quotes: 0.8"
    : "write a size as quantity('10Gi')";
}

/** Normalised values: `===` is CEL's equality and JavaScript's order is exact between numbers and bigints. */
function compareRuns(operator: ComparisonOperator, left: Term, right: Term): Run<boolean> {
  const a = runOf<Int>(left);
  const b = runOf<Int>(right);
  switch (operator) {
    case "==":
      return (scope) => a(scope) === b(scope);
    case "!=":
      return (scope) => a(scope) !== b(scope);
    case "<":
      return (scope) => a(scope) < b(scope);
    case "<=":
      return (scope) => a(scope) <= b(scope);
    case ">":
      return (scope) => a(scope) > b(scope);
    case ">=":
      return (scope) => a(scope) >= b(scope);
  }
}

/** The usual rule has a literal on the right: one call less. */
function compareConstant(operator: ComparisonOperator, left: Term, right: Term): Run<boolean> {
  const a = runOf<Int>(left);
  const constant = right.constant as Int;
  switch (operator) {
    case "==":
      return (scope) => a(scope) === constant;
    case "!=":
      return (scope) => a(scope) !== constant;
    case "<":
      return (scope) => a(scope) < constant;
    case "<=":
      return (scope) => a(scope) <= constant;
    case ">":
      return (scope) => a(scope) > constant;
    case ">=":
      return (scope) => a(scope) >= constant;
  }
}

/** Compiles `item in collection`. Throws CompileError. */
export function compileMembership(node: ASTNode, item: Term, collection: Term): Term {
  const isMap = collection.type.startsWith("map<");
  const wanted = isMap ? "string" : itemTypeOf(collection.type);
  if (wanted === undefined)
    throw new CompileError(node, `in needs a list or a map on its right, not a ${collection.type}`);
  if (item.type !== wanted) throw new CompileError(node, `${item.type} in ${collection.type} is not defined`);
  return term({
    range: node,
    type: "bool",
    operands: [item, collection],
    run: isMap ? inMap(item, collection) : inList(item, collection),
    cost: 1 + (isMap ? 0 : collection.size),
  });
}

function inMap(item: Term, collection: Term) {
  const key = runOf<string>(item);
  const map = runOf<Readonly<Record<string, unknown>>>(collection);
  return (scope: Scope) => Object.hasOwn(map(scope), key(scope));
}

function inList(item: Term, collection: Term) {
  const value = runOf<Int>(item);
  const list = runOf<readonly Int[]>(collection);
  // indexOf compares with ===, so NaN is in no list, as CEL's equality says.
  return (scope: Scope) => list(scope).indexOf(value(scope)) !== -1;
}
