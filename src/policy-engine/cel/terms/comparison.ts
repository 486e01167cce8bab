// == != < <= > >= and in. An int and a double are compared exactly by size, as in Kubernetes; everything else only with its
// own type. A literal that can never be reached by a ratio is refused.
import type { Int } from "../functions/int.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import type { Run, Scope } from "../scope.ts";
import { isNumeric, isScalar, itemTypeOf, runOf, type Term, term } from "../term.ts";

export type ComparisonOperator = "==" | "!=" | "<" | "<=" | ">" | ">=";

/** Compiles `left operator right`. Throws Refusal. */
export function compileComparison(node: ASTNode, operator: ComparisonOperator, left: Term, right: Term): Term {
  refuseUnreachableRatio(node, left, right);
  refuseUnreachableRatio(node, right, left);
  if (left.unit !== undefined && right.unit !== undefined && left.unit !== right.unit)
    throw new Refusal(node, `${left.unit} compared with ${right.unit}`, "compare two values of one unit");
  refuseTypes(node, operator, left, right);
  const run =
    right.constant === undefined ? compareRuns(operator, left, right) : compareConstant(operator, left, right);
  return term({ range: node, type: "bool", operands: [left, right], run });
}

function refuseUnreachableRatio(node: ASTNode, ratio: Term, literal: Term): void {
  if (ratio.unit !== "ratio" || literal.constant === undefined || !isNumeric(literal)) return;
  const value = Number(literal.constant);
  if (value >= 0 && value <= 1) return;
  const hint = value > 1 && value <= 100 ? `ratios are 0..1: write ${value / 100}` : "ratios are 0..1";
  throw new Refusal(node, `a ratio compared with ${value} is the same for every volume`, hint);
}

function refuseTypes(node: ASTNode, operator: ComparisonOperator, left: Term, right: Term): void {
  const message = `${left.type} ${operator} ${right.type} is not defined`;
  const isEquality = operator === "==" || operator === "!=";
  if (isNumeric(left) && isNumeric(right)) {
    if (!isEquality || left.type === right.type) return;
    throw new Refusal(node, message, "make both doubles: 1.0 instead of 1, or double(…)");
  }
  if (left.type !== right.type) throw new Refusal(node, message, typeHint(left, right));
  if (!isScalar(left.type)) throw new Refusal(node, message, "compare their items");
  const isOrdered = left.type === "duration" || left.type === "timestamp";
  if (!isEquality && !isOrdered) throw new Refusal(node, message, `only == and != compare ${left.type}s`);
}

function typeHint(left: Term, right: Term): string | undefined {
  const types = [left.type, right.type];
  if (types.includes("duration") && (left.unit ?? right.unit) === "seconds") return "write seconds: 3600.0";
  if (types.includes("string") && (isNumeric(left) || isNumeric(right))) return "write a size as quantity('10Gi')";
  return undefined;
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

/** Compiles `item in collection`. Throws Refusal. */
export function compileMembership(node: ASTNode, item: Term, collection: Term): Term {
  const isMap = collection.type.startsWith("map<");
  const wanted = isMap ? "string" : itemTypeOf(collection.type);
  if (wanted === undefined) throw new Refusal(node, `in needs a list or a map on its right, not a ${collection.type}`);
  if (item.type !== wanted) throw new Refusal(node, `${item.type} in ${collection.type} is not defined`);
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
