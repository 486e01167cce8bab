// string.matches by RE2: linear in the text whatever the pattern, never JavaScript's backtracking RegExp.
import type { RE2JS } from "re2js";
import type { Usage } from "../compilation.ts";
import { failRule } from "../failure.ts";
import { MAX_COST, MAX_POLICY_RANGES, MAX_SEARCHED_CHARS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import { runOf, type Term, term } from "../term.ts";
import { patternSize } from "./pattern-size.ts";
import type { PatternCache, PolicyPatterns } from "./patterns.ts";

/**
 * A search takes the time of its text times its pattern: for each instruction of the pattern, on the longest text, about as long
 * as this many other steps. Without it one rule with a pattern such as [ab]{900} stops every decision for seconds.
 */
const COST_PER_INSTRUCTION = 16;

/** Compiles `text.matches('pattern')`: the pattern is found anywhere in the text. Throws Refusal. */
export function compileMatches(node: ASTNode, text: Term, args: readonly ASTNode[], usage: Usage): Term {
  const [pattern] = args;
  if (text.type !== "string" || args.length !== 1 || pattern === undefined)
    throw new Refusal(node, "matches() takes a pattern, on a string");
  if (pattern.op !== "value" || typeof pattern.args !== "string")
    throw new Refusal(pattern, "the pattern of matches() is not a literal", "write it as a string: r'^db-[0-9]+$'");
  refuseLarge(pattern, pattern.args, usage);
  refuseOverBudget(pattern, pattern.args, usage.patterns);
  const compiled = compilePattern(pattern, pattern.args, usage.patterns.cache);
  const read = runOf<string>(text);
  const run = (scope: Parameters<typeof read>[0]) => compiled.test(searchable(read(scope)));
  const cost = COST_PER_INSTRUCTION * compiled.programSize();
  return term({ range: node, type: "bool", operands: [text], run, cost });
}

/** Before it is compiled: that alone would stop every decision for seconds. */
function refuseLarge(node: ASTNode, pattern: string, usage: Usage): void {
  usage.patternSize += patternSize(pattern);
  const cost = COST_PER_INSTRUCTION * usage.patternSize;
  if (cost <= MAX_COST) return;
  throw new Refusal(
    node,
    `the patterns of this expression cost up to ${cost} steps, over the limit of ${MAX_COST}`,
    "repeat less: x{900} costs as much as 900 characters",
  );
}

function refuseOverBudget(node: ASTNode, pattern: string, patterns: PolicyPatterns): void {
  patterns.count(pattern);
  if (patterns.ranges <= MAX_POLICY_RANGES) return;
  throw new Refusal(
    node,
    `the patterns of this policy hold up to ${patterns.ranges} ranges of characters, over the limit of ${MAX_POLICY_RANGES}`,
    "repeat less: x{900} holds 900 of them, and each \\pL holds 750",
  );
}

function searchable(text: string): string {
  if (text.length <= MAX_SEARCHED_CHARS) return text;
  failRule(`matches() searches at most ${MAX_SEARCHED_CHARS} characters, this text has ${text.length}`);
}

function compilePattern(node: ASTNode, pattern: string, cache: PatternCache): RE2JS {
  try {
    return cache.compile(pattern);
  } catch (error) {
    const message = `the pattern is no RE2 expression: ${(error as Error).message}`;
    throw new Refusal(node, message, "RE2 has no backreferences and no lookaround");
  }
}
