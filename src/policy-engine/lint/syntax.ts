// The syntax trees of a policy's expressions, for what looks at how a rule is written. Only for policies that compile: nothing is checked
// here, and nothing runs.
import type { ClusterVolumePolicySpec } from "../../contracts/kinds/volume-policy.ts";
import { type ASTNode, createParser } from "../cel/parser.ts";

export type { ASTNode };

export interface Syntax {
  /** The tree of an expression of this policy. */
  readonly tree: (source: string) => ASTNode;
  /** The tree of a variable. */
  readonly variable: (name: string) => ASTNode | undefined;
}

/** Throws CompileError on an expression that cannot be parsed. */
export function syntaxOf({ variables = [] }: Pick<ClusterVolumePolicySpec, "variables">): Syntax {
  // Types are not asked about, so that the parser needs no variables.
  const { parse } = createParser([]);
  const trees = new Map(variables.map(({ name, expression }) => [name, parse(expression).node]));
  return { tree: (source) => parse(source).node, variable: (name) => trees.get(name) };
}

/** The name of the variable that a node reads; undefined for any other node. */
export function variableName(node: ASTNode): string | undefined {
  return node.op === "." && isName(node.args[0], "variables") ? node.args[1] : undefined;
}

export function isName(node: ASTNode, name: string): boolean {
  return node.op === "id" && node.args === name;
}

/** The operands of a node, from left to right. */
export function operandsOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case "value":
    case "id":
      return [];
    case ".":
    case ".?":
      return [node.args[0]];
    case "call":
      return node.args[1];
    case "rcall":
      return [node.args[1], ...node.args[2]];
    case "list":
      return node.args;
    case "map":
      return node.args.flat();
    case "!_":
    case "-_":
      return [node.args];
    default:
      return node.args;
  }
}
