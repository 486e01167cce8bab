// Calls: functions, methods, math, time zones, patterns, windows and loops, each recognised by its name and its receiver.

import type { RE2JS } from "re2js";
import { formatDuration, parseDuration } from "../../../contracts/quantities/duration.ts";
import type { Compilation, Usage, Window } from "../compilation.ts";
import { CompileError, didYouMean, EvaluationFailure, failRule } from "../errors.ts";
import { usedBytesMax, usedRatioMax } from "../fact-table.ts";
import { applied, FUNCTIONS, type FunctionOverload, METHODS } from "../functions/functions.ts";
import type { Int } from "../functions/int.ts";
import { type PatternCache, type PolicyPatterns, patternSize } from "../functions/patterns.ts";
import { CALENDAR_FIELDS, localTime } from "../functions/time.ts";
import { MAX_COST, MAX_POLICY_RANGES, MAX_SEARCHED_CHARS, MAX_WINDOW_MS, MIN_WINDOW_MS } from "../limits.ts";
import type { ASTNode } from "../parser.ts";
import { isNumeric, runOf, type Scope, type Term, term } from "../term.ts";
import { compileComprehension, isComprehension } from "./comprehension.ts";
import { compileHas } from "./selection.ts";

const MACRO_NAMES = ["has"];
const METHOD_NAMES = ["all", "exists", "exists_one", "filter", "map", "matches"];

/** Compiles `name(args…)`. Throws CompileError. */
export function compileCall(node: ASTNode, name: string, args: readonly ASTNode[], context: Compilation): Term {
  if (name === "has") return compileHas(node, args.length === 1 ? args[0] : undefined, context);
  const overloads = FUNCTIONS.get(name);
  if (overloads !== undefined) return compileOverload(node, name, overloads, args.map(context.compile));
  const isMethod = METHODS.has(name) || METHOD_NAMES.includes(name);
  const hint = isMethod ? `write value.${name}(…)` : didYouMean(name, [...FUNCTIONS.keys(), ...MACRO_NAMES]);
  throw new CompileError(node, `unknown function ${name}()`, hint);
}

/** Compiles `receiver.name(args…)`. Throws CompileError. */
export function compileMethod(
  node: ASTNode,
  name: string,
  receiver: ASTNode,
  args: readonly ASTNode[],
  context: Compilation,
): Term {
  if (receiver.op === "id" && receiver.args === "math") return compileExtreme(node, name, args.map(context.compile));
  if (receiver.op === "id" && receiver.args === "volume") return compileWindow(node, name, args, context);
  if (isComprehension(name)) return compileComprehension(node, name, receiver, args, context);
  const target = context.compile(receiver);
  if (name === "matches") return compileMatches(node, target, args, context.usage);
  const field = CALENDAR_FIELDS.get(name);
  if (field !== undefined && args.length === 1) return compileZoned(node, name, target, args[0] as ASTNode);
  const overloads = METHODS.get(name);
  if (overloads !== undefined) return compileOverload(node, name, overloads, [target, ...args.map(context.compile)]);
  const hint = FUNCTIONS.has(name) ? `write ${name}(…)` : didYouMean(name, [...METHODS.keys(), ...METHOD_NAMES]);
  throw new CompileError(node, `unknown method ${name}() of a ${target.type}`, hint);
}

function compileOverload(
  node: ASTNode,
  name: string,
  overloads: readonly FunctionOverload[],
  args: readonly Term[],
): Term {
  const chosen = overloads.find(
    ({ parameters }) => parameters.length === args.length && parameters.every((type, i) => type === args[i]?.type),
  );
  if (chosen === undefined) {
    const types = args.map(({ type }) => type).join(", ");
    const known = overloads.map(({ parameters }) => `(${parameters.join(", ")})`);
    throw new CompileError(node, `${name}() does not take (${types})`, `it takes ${known.slice(0, 6).join(", ")}`);
  }
  const runs = args.map((argument) => argument.run);
  return term({ range: node, type: chosen.result, unit: chosen.unit, operands: args, run: applied(chosen, runs) });
}

/** A calendar field in a time zone; the zone is a literal, so that it is checked now. */
function compileZoned(node: ASTNode, name: string, target: Term, zone: ASTNode): Term {
  const field = CALENDAR_FIELDS.get(name);
  if (field === undefined || target.type !== "timestamp" || zone.op !== "value" || typeof zone.args !== "string")
    throw new CompileError(
      node,
      `${name}() takes a literal time zone of a timestamp`,
      "write now.getHours('Europe/Berlin')",
    );
  const toLocal = zoneOf(zone, zone.args);
  const run = runOf<number>(target);
  const zoned = rememberingLast((timestampMs) => field(new Date(toLocal(timestampMs))));
  return term({
    range: node,
    type: "int",
    operands: [target],
    run: (scope) => zoned(run(scope)),
    cost: ZONE_COST,
  });
}

/** Formatting in a time zone takes about as long as this many other steps. */
const ZONE_COST = 50;

/** All volumes of a round have the same `now`. */
function rememberingLast(compute: (timestampMs: number) => number): (timestampMs: number) => number {
  let lastMs: number | undefined;
  let lastResult = 0;
  return (timestampMs) => {
    if (timestampMs !== lastMs) lastResult = compute(timestampMs);
    lastMs = timestampMs;
    return lastResult;
  };
}

function zoneOf(node: ASTNode, timeZone: string): (timestampMs: number) => number {
  try {
    return localTime(timeZone);
  } catch (error) {
    if (error instanceof EvaluationFailure) throw new CompileError(node, error.message, "offsets are not supported");
    throw error;
  }
}

const MAX_NUMBERS = 4;

/** Compiles `math.greatest(…)` or `math.least(…)`. Throws CompileError. */
function compileExtreme(node: ASTNode, name: string, numbers: readonly Term[]): Term {
  if (name !== "greatest" && name !== "least")
    throw new CompileError(node, `unknown function math.${name}()`, didYouMean(name, ["greatest", "least"]));
  if (numbers.length < 2 || numbers.length > MAX_NUMBERS || !numbers.every(isNumeric))
    throw new CompileError(node, `math.${name}() takes two to ${MAX_NUMBERS} numbers`);
  const isDouble = numbers.some(({ type }) => type === "double");
  const unit = numbers.every((number) => number.unit === numbers[0]?.unit) ? numbers[0]?.unit : undefined;
  const runs = numbers.map((number) => runOf<Int>(number));
  const isBetter = name === "greatest" ? (a: Int, b: Int) => a > b : (a: Int, b: Int) => a < b;
  const run = (scope: Scope) => {
    let best: Int | undefined;
    for (const number of runs) {
      const value = number(scope);
      if (Number.isNaN(value)) failRule(`math.${name}() of NaN is not possible`);
      if (best === undefined || isBetter(value, best)) best = value;
    }
    return isDouble ? Number(best) : (best as Int);
  };
  return term({ range: node, type: isDouble ? "double" : "int", unit, operands: numbers, run });
}

// volume.usedRatioMax('24h') and volume.usedBytesMax('24h'): the peak of a window. Windows are literals, since the history to
// keep is decided when a policy is compiled.

const EXAMPLE = "write a literal such as '24h'";

/** Compiles `volume.name(window)`. Throws CompileError. */
function compileWindow(node: ASTNode, name: string, args: readonly ASTNode[], context: Compilation): Term {
  if (name !== "usedRatioMax" && name !== "usedBytesMax")
    throw new CompileError(
      node,
      `volume has no function ${name}()`,
      didYouMean(name, ["usedRatioMax", "usedBytesMax"]),
    );
  const [window] = args;
  if (args.length !== 1 || window === undefined) throw new CompileError(node, `${name}() takes one window`, EXAMPLE);
  const windowMs = windowOf(window);
  addWindow(context.usage.windows, { function: name, windowMs });
  context.usage.reads.add(`volume.${name}`);
  if (name === "usedBytesMax")
    return term({
      range: node,
      type: "int",
      unit: "bytes",
      operands: [],
      run: (scope) => usedBytesMax(scope, windowMs),
    });
  return term({
    range: node,
    type: "double",
    unit: "ratio",
    operands: [],
    run: (scope) => usedRatioMax(scope, windowMs),
  });
}

function windowOf(node: ASTNode): number {
  if (node.op !== "value" || typeof node.args !== "string")
    throw new CompileError(node, "the window is not a literal", EXAMPLE);
  let windowMs: number;
  try {
    windowMs = parseDuration(node.args);
  } catch (error) {
    throw new CompileError(node, (error as Error).message, EXAMPLE);
  }
  if (Number.isInteger(windowMs) && windowMs >= MIN_WINDOW_MS && windowMs <= MAX_WINDOW_MS) return windowMs;
  const range = `${formatDuration(MIN_WINDOW_MS)} to ${formatDuration(MAX_WINDOW_MS)}`;
  throw new CompileError(node, `a window of ${node.args} is out of range`, `windows are ${range}`);
}

function addWindow(windows: Window[], window: Window): void {
  const isKnown = windows.some((one) => one.function === window.function && one.windowMs === window.windowMs);
  if (!isKnown) windows.push(window);
}

// string.matches by RE2: linear in the text whatever the pattern, never JavaScript's backtracking RegExp.

/**
 * A search takes the time of its text times its pattern: for each instruction of the pattern, on the longest text, about as long
 * as this many other steps. Without it one rule with a pattern such as [ab]{900} stops every decision for seconds.
 */
const COST_PER_INSTRUCTION = 16;

/** Compiles `text.matches('pattern')`: the pattern is found anywhere in the text. Throws CompileError. */
function compileMatches(node: ASTNode, text: Term, args: readonly ASTNode[], usage: Usage): Term {
  const [pattern] = args;
  if (text.type !== "string" || args.length !== 1 || pattern === undefined)
    throw new CompileError(node, "matches() takes a pattern, on a string");
  if (pattern.op !== "value" || typeof pattern.args !== "string")
    throw new CompileError(
      pattern,
      "the pattern of matches() is not a literal",
      "write it as a string: r'^db-[0-9]+$'",
    );
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
  throw new CompileError(
    node,
    `the patterns of this expression cost up to ${cost} steps, over the limit of ${MAX_COST}`,
    "repeat less: x{900} costs as much as 900 characters",
  );
}

function refuseOverBudget(node: ASTNode, pattern: string, patterns: PolicyPatterns): void {
  patterns.count(pattern);
  if (patterns.ranges <= MAX_POLICY_RANGES) return;
  throw new CompileError(
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
    const message = `the pattern is not an RE2 expression: ${(error as Error).message}`;
    throw new CompileError(node, message, "RE2 has no backreferences and no lookaround");
  }
}
