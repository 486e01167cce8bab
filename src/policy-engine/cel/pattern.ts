// string.matches by RE2: linear in the text whatever the pattern, never JavaScript's backtracking RegExp.
import { RE2JS } from "re2js";
import { failRule } from "./failure.ts";
import { MAX_SEARCHED_CHARS } from "./limits.ts";
import type { ASTNode } from "./parser.ts";
import { Refusal } from "./problem.ts";
import { runOf, type Term, term } from "./term.ts";

/**
 * A search takes the time of its text times its pattern: for each instruction of the pattern, on the longest text, about as long
 * as this many other steps. Without it one rule with a pattern such as [ab]{900} stops every decision for seconds.
 */
const COST_PER_INSTRUCTION = 16;

/** Compiles `text.matches('pattern')`: the pattern is found anywhere in the text. Throws Refusal. */
export function compileMatches(node: ASTNode, text: Term, args: readonly ASTNode[]): Term {
  const [pattern] = args;
  if (text.type !== "string" || args.length !== 1 || pattern === undefined)
    throw new Refusal(node, "matches() takes a pattern, on a string");
  if (pattern.op !== "value" || typeof pattern.args !== "string")
    throw new Refusal(pattern, "the pattern of matches() is not a literal", "write it as a string: r'^db-[0-9]+$'");
  const compiled = compilePattern(pattern, pattern.args);
  const read = runOf<string>(text);
  const run = (scope: Parameters<typeof read>[0]) => compiled.test(searchable(read(scope)));
  const cost = COST_PER_INSTRUCTION * compiled.programSize();
  return term({ range: node, type: "bool", operands: [text], run, cost });
}

function searchable(text: string): string {
  if (text.length <= MAX_SEARCHED_CHARS) return text;
  failRule(`matches() searches at most ${MAX_SEARCHED_CHARS} characters, this text has ${text.length}`);
}

function compilePattern(node: ASTNode, pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    const message = `the pattern is no RE2 expression: ${(error as Error).message}`;
    throw new Refusal(node, message, "RE2 has no backreferences and no lookaround");
  }
}
