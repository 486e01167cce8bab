// Calls: functions, methods, math, time zones, patterns, windows and loops, each told apart by its name and its receiver.

import type { Compilation } from "../compilation.ts";
import { EvaluationFailure } from "../failure.ts";
import { CALENDAR_FIELDS, localTime } from "../functions/calendar.ts";
import { compileExtreme } from "../functions/extreme.ts";
import { applied, FUNCTIONS, type FunctionOverload, METHODS } from "../functions/functions.ts";
import { compileMatches } from "../functions/pattern.ts";
import type { ASTNode } from "../parser.ts";
import { Refusal } from "../problem.ts";
import { didYouMean } from "../suggestion.ts";
import { runOf, type Term, term } from "../term.ts";
import { compileComprehension, isComprehension } from "./comprehension.ts";
import { compileHas } from "./selection.ts";
import { compileWindow } from "./window.ts";

const MACRO_NAMES = ["has"];
const METHOD_NAMES = ["all", "exists", "exists_one", "filter", "map", "matches"];

/** Compiles `name(args…)`. Throws Refusal. */
export function compileCall(node: ASTNode, name: string, args: readonly ASTNode[], context: Compilation): Term {
  if (name === "has") return compileHas(node, args.length === 1 ? args[0] : undefined, context);
  const overloads = FUNCTIONS.get(name);
  if (overloads !== undefined) return compileOverload(node, name, overloads, args.map(context.compile));
  const isMethod = METHODS.has(name) || METHOD_NAMES.includes(name);
  const hint = isMethod ? `write value.${name}(…)` : didYouMean(name, [...FUNCTIONS.keys(), ...MACRO_NAMES]);
  throw new Refusal(node, `unknown function ${name}()`, hint);
}

/** Compiles `receiver.name(args…)`. Throws Refusal. */
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
  throw new Refusal(node, `unknown method ${name}() of a ${target.type}`, hint);
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
    throw new Refusal(node, `${name}() does not take (${types})`, `it takes ${known.slice(0, 6).join(", ")}`);
  }
  const runs = args.map((argument) => argument.run);
  return term({ range: node, type: chosen.result, unit: chosen.unit, operands: args, run: applied(chosen, runs) });
}

/** A calendar field in a time zone; the zone is a literal, so that it is checked now. */
function compileZoned(node: ASTNode, name: string, target: Term, zone: ASTNode): Term {
  const field = CALENDAR_FIELDS.get(name);
  if (field === undefined || target.type !== "timestamp" || zone.op !== "value" || typeof zone.args !== "string")
    throw new Refusal(
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
    if (error instanceof EvaluationFailure) throw new Refusal(node, error.message, "offsets are not supported");
    throw error;
  }
}
