// From the syntax tree to a typed term: which node is compiled where. Everything that the dialect has is named here; every
// other node is refused.

import type { Compilation, Local, Usage, Variable } from "./compilation.ts";
import { EvaluationFailure } from "./failure.ts";
import { toInt } from "./functions/int.ts";
import { MAX_COMPREHENSION_DEPTH, MAX_DEPTH } from "./limits.ts";
import { type ASTNode, tooDeep } from "./parser.ts";
import { Refusal } from "./problem.ts";
import { constantTerm, type Term } from "./term.ts";
import { type ArithmeticOperator, compileArithmetic, compileNegation } from "./terms/arithmetic.ts";
import { compileCall, compileMethod } from "./terms/calls.ts";
import { type ComparisonOperator, compileComparison, compileMembership } from "./terms/comparison.ts";
import { compileList, compileMap } from "./terms/literals.ts";
import { compileConditional, compileLogic, compileNot } from "./terms/logic.ts";
import { compileField, compileIndex, compileName } from "./terms/selection.ts";

/** Compiles a whole expression and adds what it needs to the usage. Throws Refusal. */
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
        throw new Refusal(node, `loops are nested more than ${MAX_COMPREHENSION_DEPTH} deep`);
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
      throw new Refusal(node, "optional values are not supported", "guard with has(…) or in");
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
      throw new Refusal(node, "null, uint and bytes literals are not supported");
  }
}

function literalInt(node: ASTNode, value: bigint) {
  try {
    return toInt(value);
  } catch (error) {
    if (error instanceof EvaluationFailure) throw new Refusal(node, error.message);
    throw error;
  }
}
