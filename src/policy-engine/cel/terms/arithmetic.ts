// + - * / % and unary minus. An int with a double gives a double, as policies want; cel-spec's own overloads are as specified.
import type { Compilation } from "../compilation.ts";
import { failRule } from "../failure.ts";
import { addInt, divideInt, type Int, MIN_INT, moduloInt, multiplyInt, subtractInt, toInt } from "../functions/int.ts";
import { inDurationRange, inTimestampRange } from "../functions/time.ts";
import { MAX_LITERAL_ITEMS, MAX_STRING_CHARS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import { constantTerm, isNumeric, itemTypeOf, runOf, type Term, term, type Unit, type ValueType } from "../term.ts";

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

/** Compiles `left operator right`. Throws Refusal. */
export function compileArithmetic(node: ASTNode, operator: ArithmeticOperator, left: Term, right: Term): Term {
  if (operator === "+" && itemTypeOf(left.type) !== undefined) return compileListConcatenation(node, left, right);
  const overload = OVERLOADS[operator].find((one) => one.left === left.type && one.right === right.type);
  if (overload === undefined) throw noOverload(node, operator, left, right);
  if (operator === "/" && overload.result === "int") refuseTruncatedRatio(node, left, right);
  return term({
    range: node,
    type: overload.result,
    unit: unitOf(operator, left, right),
    operands: [left, right],
    run: combineRuns(left, right, overload.combine as (left: Int, right: Int) => Int | string),
  });
}

function combineRuns(left: Term, right: Term, combine: (left: Int, right: Int) => Int | string) {
  const leftRun = runOf<Int>(left);
  const rightRun = runOf<Int>(right);
  return (scope: Parameters<typeof leftRun>[0]) => combine(leftRun(scope), rightRun(scope));
}

/** Sums and differences keep the unit; products and quotients have another one, and a sum of ratios is no ratio. */
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
  if (hint !== undefined) throw new Refusal(node, `/ of two whole numbers of ${left.unit} drops the fraction`, hint);
}

function noOverload(node: ASTNode, operator: string, left: Term, right: Term): Refusal {
  const message = `${left.type} ${operator} ${right.type} is not defined`;
  if (left.type === "duration" && right.type === "timestamp")
    return new Refusal(node, message, "write the timestamp first: now + duration('1h')");
  if (operator === "+" && (left.type === "string" || right.type === "string"))
    return new Refusal(node, message, "make both strings: string(…), percent(…) or bytes(…)");
  if (operator === "%" && isNumeric(left) && isNumeric(right))
    return new Refusal(node, message, "% is the remainder of two ints; ratios are 0..1: write 0.8 instead of 80%");
  return new Refusal(node, message);
}

function compileListConcatenation(node: ASTNode, left: Term, right: Term): Term {
  if (left.type !== right.type || !left.type.startsWith("list<")) throw noOverload(node, "+", left, right);
  const size = left.size + right.size;
  if (size > MAX_LITERAL_ITEMS)
    throw new Refusal(node, `a list of up to ${size} items is over the limit of ${MAX_LITERAL_ITEMS}`);
  const leftRun = runOf<readonly Int[]>(left);
  const rightRun = runOf<readonly Int[]>(right);
  const run = (scope: Parameters<typeof leftRun>[0]) => [...leftRun(scope), ...rightRun(scope)];
  return term({ range: node, type: left.type, operands: [left, right], run, size, cost: 1 + size });
}

/** Compiles `-operand`. Throws Refusal. */
export function compileNegation(node: ASTNode, operandNode: ASTNode, context: Compilation): Term {
  // The smallest int is written as the negation of a literal that is no int itself.
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
  if (operand.type !== "double") throw new Refusal(node, `-${operand.type} is not defined`);
  const run = runOf<number>(operand);
  return term({ range: node, type: "double", operands: [operand], run: (scope) => -run(scope) });
}
