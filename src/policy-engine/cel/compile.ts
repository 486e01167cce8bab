// From the syntax tree to a typed term: which node is compiled where. Everything that the dialect has is named here; every
// other node is refused.
import type { Compilation, Local, Usage, Variable } from "./compilation.ts";
import { CompileError, EvaluationFailure } from "./errors.ts";
import { toInt } from "./functions/int.ts";
import { MAX_COMPREHENSION_DEPTH, MAX_DEPTH } from "./limits.ts";
import { type ASTNode, tooDeep } from "./parser.ts";
import { constantTerm, isScalar, type Run, runOf, type ScalarType, type Term, term, type Value } from "./term.ts";
import { compileCall, compileMethod } from "./terms/calls.ts";
import { refuseDashedKey } from "./terms/map-keys.ts";
import {
  type ArithmeticOperator,
  type ComparisonOperator,
  compileArithmetic,
  compileComparison,
  compileMembership,
  compileNegation,
} from "./terms/operators.ts";
import { compileField, compileIndex, compileName } from "./terms/selection.ts";

/** Compiles a whole expression and adds what it needs to the usage. Throws CompileError. */
export function compileTree(node: ASTNode, variables: ReadonlyMap<string, Variable>, usage: Usage): Term {
  return compileNode(node, contextOf(variables, new Map(), usage, 1));
}

function contextOf(
  variables: ReadonlyMap<string, Variable>,
  locals: ReadonlyMap<string, Local>,
  usage: Usage,
  depth: number,
): Compilation {
  const operand = (names: ReadonlyMap<string, Local>) => contextOf(variables, names, usage, depth + 1);
  return {
    variables,
    locals,
    usage,
    depth,
    compile: (node) => compileNode(node, operand(locals)),
    compileWith: (name, local, node) => {
      if (locals.size >= MAX_COMPREHENSION_DEPTH)
        throw new CompileError(node, `loops are nested more than ${MAX_COMPREHENSION_DEPTH} deep`);
      return compileNode(node, operand(new Map(locals).set(name, local)));
    },
  };
}

function compileNode(node: ASTNode, context: Compilation): Term {
  if (context.depth > MAX_DEPTH) throw tooDeep(node);
  context.usage.depth = Math.max(context.usage.depth, context.depth);
  switch (node.op) {
    case "value":
      return compileLiteral(node, node.args);
    case "id":
      return compileName(node, node.args, context);
    case ".":
      return compileField(node, node.args[0], node.args[1], context);
    case "[]":
      return compileIndex(node, node.args[0], context.compile(node.args[1]), context);
    case "call":
      return compileCall(node, node.args[0], node.args[1], context);
    case "rcall":
      return compileMethod(node, node.args[0], node.args[1], node.args[2], context);
    case "list":
      return compileList(node, node.args.map(context.compile));
    case "map":
      return compileMap(
        node,
        node.args.map(([key, value]) => [context.compile(key), context.compile(value)]),
      );
    case "!_":
      return compileNot(node, context.compile(node.args));
    case "-_":
      return compileNegation(node, node.args, context);
    case "?:":
      return compileConditional(
        node,
        context.compile(node.args[0]),
        context.compile(node.args[1]),
        context.compile(node.args[2]),
      );
    case ".?":
    case "[?]":
      throw new CompileError(node, "optional values are not supported", "guard with has(…) or in");
    case "-":
      refuseDashedKey(node, node.args[0], node.args[1], context);
      return compileBinary(node, "-", context.compile(node.args[0]), context.compile(node.args[1]));
    default:
      return compileBinary(node, node.op, context.compile(node.args[0]), context.compile(node.args[1]));
  }
}

type BinaryOperator = ArithmeticOperator | ComparisonOperator | "in" | "&&" | "||";

function compileBinary(node: ASTNode, operator: BinaryOperator, left: Term, right: Term): Term {
  switch (operator) {
    case "&&":
    case "||":
      return compileLogic(node, operator, left, right);
    case "in":
      return compileMembership(node, left, right);
    case "+":
    case "-":
    case "*":
    case "/":
    case "%":
      return compileArithmetic(node, operator, left, right);
    default:
      return compileComparison(node, operator, left, right);
  }
}

function compileLiteral(node: ASTNode, value: unknown): Term {
  switch (typeof value) {
    case "boolean":
      return constantTerm(node, "bool", value);
    case "string":
      return constantTerm(node, "string", value);
    case "number":
      return constantTerm(node, "double", value);
    case "bigint":
      return constantTerm(node, "int", literalInt(node, value));
    default:
      throw new CompileError(node, "null, uint and bytes literals are not supported");
  }
}

function literalInt(node: ASTNode, value: bigint) {
  try {
    return toInt(value);
  } catch (error) {
    if (error instanceof EvaluationFailure) throw new CompileError(node, error.message);
    throw error;
  }
}

// List and map literals: items of one scalar type, keys that are distinct strings.

/** Compiles `[a, b, …]`. Throws CompileError. */
function compileList(node: ASTNode, items: readonly Term[]): Term {
  const type = itemType(node, items);
  const runs = items.map((item) => item.run);
  const size = items.length;
  return term({
    range: node,
    type: `list<${type}>`,
    operands: items,
    run: (scope) => runs.map((run) => run(scope)),
    size,
  });
}

/** Compiles `{'a': 1, …}`. Throws CompileError. */
function compileMap(node: ASTNode, entries: readonly (readonly [Term, Term])[]): Term {
  const type = itemType(
    node,
    entries.map(([, value]) => value),
  );
  const keys = entries.map(([key]) => literalKey(key));
  keys.forEach((key, index) => {
    const range = entries[index]?.[0].range ?? node;
    if (keys.indexOf(key) !== index) throw new CompileError(range, `the key "${key}" appears twice`);
  });
  const values = entries.map(([, value]) => value);
  const run = (scope: Parameters<Term["run"]>[0]) => {
    const map = Object.create(null) as Record<string, Value>;
    values.forEach((value, index) => {
      map[keys[index] as string] = value.run(scope);
    });
    return map;
  };
  return term({ range: node, type: `map<${type}>`, operands: values, run, size: entries.length });
}

function literalKey({ type, constant, range }: Term): string {
  if (type === "string" && typeof constant === "string") return constant;
  throw new CompileError(range, "the keys of a map are literal strings");
}

function itemType(node: ASTNode, items: readonly Term[]): ScalarType {
  const type = items[0]?.type;
  if (type === undefined) throw new CompileError(node, "an empty list or map is the same for every volume");
  if (!isScalar(type)) throw new CompileError(node, "lists and maps of lists or maps are not supported");
  const other = items.find((item) => item.type !== type);
  if (other === undefined) return type;
  throw new CompileError(other.range, `this is a ${other.type}, the items before it are of type ${type}`);
}

// && || ! and ?:. A failure on one side of && or || is absorbed when the other side alone decides, in either order.

/** Compiles `left && right` or `left || right`. Throws CompileError. */
function compileLogic(node: ASTNode, operator: "&&" | "||", left: Term, right: Term): Term {
  requireBool(left, operator);
  requireBool(right, operator);
  const decisive = operator === "||";
  // A decisive constant makes the whole constant, whatever the other side reads.
  if (left.constant === decisive || right.constant === decisive) return constantTerm(node, "bool", decisive);
  return term({ range: node, type: "bool", operands: [left, right], run: absorbing(decisive, left, right) });
}

function absorbing(decisive: boolean, left: Term, right: Term): Run<boolean> {
  const leftRun = runOf<boolean>(left);
  const rightRun = runOf<boolean>(right);
  return (scope) => {
    let value: boolean;
    try {
      value = leftRun(scope);
    } catch (failure) {
      if (failure instanceof EvaluationFailure && rightRun(scope) === decisive) return decisive;
      throw failure;
    }
    return value === decisive ? decisive : rightRun(scope);
  };
}

/** Compiles `!operand`. Throws CompileError. */
function compileNot(node: ASTNode, operand: Term): Term {
  requireBool(operand, "!");
  const run = runOf<boolean>(operand);
  return term({ range: node, type: "bool", operands: [operand], run: (scope) => !run(scope) });
}

/** Compiles `condition ? yes : no`: only the chosen branch runs. Throws CompileError. */
function compileConditional(node: ASTNode, condition: Term, yes: Term, no: Term): Term {
  requireBool(condition, "?:");
  if (yes.type !== no.type)
    throw new CompileError(node, `the branches of ?: have different types: ${yes.type} and ${no.type}`);
  const test = runOf<boolean>(condition);
  return term({
    range: node,
    type: yes.type,
    unit: yes.unit === no.unit ? yes.unit : undefined,
    size: Math.max(yes.size, no.size),
    operands: [condition, yes, no],
    run: (scope) => (test(scope) ? yes.run(scope) : no.run(scope)),
  });
}

function requireBool(operand: Term, operator: string): void {
  if (operand.type !== "bool") throw new CompileError(operand.range, `${operator} needs a bool, not a ${operand.type}`);
}
