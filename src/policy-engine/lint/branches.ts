// What a rule's condition says of how full a volume is: the ways in which it can be true, each a list of comparisons that hold at once.
// Whatever does not compare one fact with a number counts as another term, of which nothing is known. Pure.
import { readQuantity } from "../../contracts/quantities/quantity.ts";
import { type ASTNode, isName, operandsOf, type Syntax, variableName } from "./syntax.ts";

type Operator = "<" | "<=" | ">" | ">=";

/** Such as volume.usedRatioMax('24h') < 0.3. */
export interface Comparison {
  /** As a user writes it, the window included. */
  readonly fact: string;
  /** Of volume: "usedRatio", "usedRatioMax" and so on. */
  readonly name: string;
  readonly operator: Operator;
  readonly bound: number;
}

export interface Branch {
  readonly comparisons: readonly Comparison[];
  /** Whether it depends on more than these. */
  readonly hasMore: boolean;
  /** Whether that says how full the volume is, too. */
  readonly hasMoreOfFill: boolean;
}

/** A condition of more than so many ways, or comparisons in one, says nothing to us. */
const BRANCHES_LIMIT = 64;
const COMPARISONS_LIMIT = 64;

/** Undefined: there are too many. */
type Branches = readonly Branch[] | undefined;

/** Empty where there are too many to look at. */
export function branchesOf(condition: ASTNode, syntax: Syntax): readonly Branch[] {
  const known = new Map<string, Branches>();
  const of = (node: ASTNode, isNegated: boolean): Branches => {
    const name = variableName(node) ?? "";
    const variable = syntax.variable(name);
    if (variable !== undefined) {
      const key = `${isNegated} ${name}`;
      if (!known.has(key)) known.set(key, of(variable, isNegated));
      return known.get(key);
    }
    if (node.op === "!_") return of(node.args, !isNegated);
    if (node.op === "&&" || node.op === "||") {
      const [left, right] = [of(node.args[0], isNegated), of(node.args[1], isNegated)];
      return (node.op === "&&") === isNegated ? either(left, right) : both(left, right);
    }
    const comparison = comparisonOf(node, isNegated, syntax);
    if (comparison !== undefined) return [{ comparisons: [comparison], hasMore: false, hasMoreOfFill: false }];
    return [{ comparisons: [], hasMore: true, hasMoreOfFill: readsFill(node, syntax) }];
  };
  return of(condition, false) ?? [];
}

function either(left: Branches, right: Branches): Branches {
  if (left === undefined || right === undefined || left.length + right.length > BRANCHES_LIMIT) return undefined;
  return [...left, ...right];
}

function both(left: Branches, right: Branches): Branches {
  if (left === undefined || right === undefined || left.length * right.length > BRANCHES_LIMIT) return undefined;
  const joined = left.flatMap((one) =>
    right.map((other) => ({
      comparisons: [...one.comparisons, ...other.comparisons],
      hasMore: one.hasMore || other.hasMore,
      hasMoreOfFill: one.hasMoreOfFill || other.hasMoreOfFill,
    })),
  );
  return joined.some(({ comparisons }) => comparisons.length > COMPARISONS_LIMIT) ? undefined : joined;
}

function readsFill(root: ASTNode, syntax: Syntax): boolean {
  const seen = new Set<string>();
  const look = (node: ASTNode): boolean => {
    const { name } = factOf(node) ?? {};
    if (name !== undefined && (RISING.has(name) || FALLING.has(name))) return true;
    const variable = variableName(node);
    if (variable === undefined) return operandsOf(node).some(look);
    const tree = seen.has(variable) ? undefined : syntax.variable(variable);
    seen.add(variable);
    return tree !== undefined && look(tree);
  };
  return look(root);
}

const TURNED: Readonly<Record<Operator, Operator>> = { "<": ">", "<=": ">=", ">": "<", ">=": "<=" };
const NEGATED: Readonly<Record<Operator, Operator>> = { "<": ">=", "<=": ">", ">": "<=", ">=": "<" };

function comparisonOf(node: ASTNode, isNegated: boolean, syntax: Syntax): Comparison | undefined {
  if (node.op !== "<" && node.op !== "<=" && node.op !== ">" && node.op !== ">=") return undefined;
  const [left, right] = node.args;
  const compared = (fact: ASTNode, bound: ASTNode, operator: Operator): Comparison | undefined => {
    const named = factOf(fact);
    const number = numberOf(bound, syntax);
    if (named === undefined || number === undefined) return undefined;
    return { ...named, bound: number, operator: isNegated ? NEGATED[operator] : operator };
  };
  return compared(left, right, node.op) ?? compared(right, left, TURNED[node.op]);
}

function factOf(node: ASTNode): Pick<Comparison, "fact" | "name"> | undefined {
  if (node.op === "." && isName(node.args[0], "volume")) return { fact: `volume.${node.args[1]}`, name: node.args[1] };
  if (node.op !== "rcall" || !isName(node.args[1], "volume")) return undefined;
  const [name, , [window]] = node.args;
  return window?.op === "value" ? { fact: `volume.${name}('${String(window.args)}')`, name } : undefined;
}

/** Of a literal, quantity('…'), or a variable that is one of these. */
function numberOf(node: ASTNode, syntax: Syntax): number | undefined {
  const variable = syntax.variable(variableName(node) ?? "");
  if (variable !== undefined) return numberOf(variable, syntax);
  if (node.op === "value" && (typeof node.args === "number" || typeof node.args === "bigint")) return Number(node.args);
  if (node.op !== "call" || node.args[0] !== "quantity") return undefined;
  const [text] = node.args[1];
  return text?.op === "value" && typeof text.args === "string" ? readQuantity(text.args) : undefined;
}

// Which way a comparison looks.

/** Facts of volume that rise as it fills up, and those that fall. */
const RISING = new Set([
  ...["usedRatio", "usedRatioMax", "usedBytes", "usedBytesMax", "inodesUsed", "inodesUsedRatio"],
  "growthBytesPerSecond",
]);
const FALLING = new Set(["availableBytes", "secondsToFull"]);

/** "full": it becomes true as the volume fills up; undefined: neither. */
export function looksTo({ name, operator }: Comparison): "full" | "empty" | undefined {
  const isAbove = operator === ">" || operator === ">=";
  if (RISING.has(name)) return isAbove ? "full" : "empty";
  if (FALLING.has(name)) return isAbove ? "empty" : "full";
  return undefined;
}

export function isUsedRatio({ name }: Comparison): boolean {
  return name === "usedRatio" || name === "usedRatioMax";
}

export function holdsAt({ operator, bound }: Comparison, value: number): boolean {
  switch (operator) {
    case "<":
      return value < bound;
    case "<=":
      return value <= bound;
    case ">":
      return value > bound;
    case ">=":
      return value >= bound;
  }
}
