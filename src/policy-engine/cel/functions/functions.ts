// The dialect's functions and methods by name and types. What is not here is refused, whatever the package knows.
import { formatBytes, parseQuantity, QuantityError } from "../../../contracts/quantities/quantity.ts";
import { formatPercent } from "../../../contracts/quantities/ratio.ts";
import { failRule } from "../errors.ts";
import type { Run, Scope, Unit, Value, ValueType } from "../term.ts";
import { type Int, intOfDouble, toInt } from "./int.ts";
import { CALENDAR_FIELDS, parseCelDuration, parseCelTimestamp } from "./time.ts";

export interface FunctionOverload {
  /** The receiver of a method comes first. */
  readonly parameters: readonly ValueType[];
  readonly result: ValueType;
  readonly unit: Unit | undefined;
  readonly apply: (...args: Value[]) => Value;
}

type Overloads = readonly FunctionOverload[];

/** The parameters' types stand twice, for CEL and for TypeScript: the one place where they are matched by hand. */
function overload<Args extends Value[]>(
  parameters: readonly ValueType[],
  result: ValueType,
  apply: (...args: Args) => Value,
  unit?: Unit,
): FunctionOverload {
  return { parameters, result, apply: apply as unknown as FunctionOverload["apply"], unit };
}

const SIZES: Overloads = [
  overload(["string"], "int", (text: string) => codePoints(text)),
  ...(["bool", "string", "int", "double", "duration", "timestamp"] as const).flatMap((item) => [
    overload([`list<${item}>`], "int", (list: readonly Value[]) => list.length),
    overload([`map<${item}>`], "int", (map: Readonly<Record<string, unknown>>) => Object.keys(map).length),
  ]),
];

export const FUNCTIONS: ReadonlyMap<string, Overloads> = new Map<string, Overloads>([
  ["quantity", [overload(["string"], "int", bytesOfQuantity, "bytes")]],
  ["duration", [overload(["string"], "duration", parseCelDuration)]],
  ["timestamp", [overload(["string"], "timestamp", parseCelTimestamp)]],
  ["percent", [overload(["double"], "string", (ratio: number) => formatPercent(finite("percent", ratio)))]],
  [
    "bytes",
    [
      overload(["int"], "string", (bytes: Int) => formatBytes(Number(bytes))),
      overload(["double"], "string", (bytes: number) => formatBytes(finite("bytes", bytes))),
    ],
  ],
  ["size", SIZES],
  [
    "int",
    [
      overload(["int"], "int", (value: Int) => value),
      overload(["double"], "int", intOfDouble),
      overload(["string"], "int", intOfText),
    ],
  ],
  [
    "double",
    [
      overload(["double"], "double", (value: number) => value),
      overload(["int"], "double", (value: Int) => Number(value)),
      overload(["string"], "double", doubleOfText),
    ],
  ],
  [
    "string",
    [
      overload(["string"], "string", (value: string) => value),
      overload(["bool"], "string", (value: boolean) => `${value}`),
      overload(["int"], "string", (value: Int) => `${value}`),
      overload(["double"], "string", textOfDouble),
    ],
  ],
]);

export const METHODS: ReadonlyMap<string, Overloads> = new Map<string, Overloads>([
  ["size", SIZES],
  ["startsWith", [overload(["string", "string"], "bool", (text: string, prefix: string) => text.startsWith(prefix))]],
  ["endsWith", [overload(["string", "string"], "bool", (text: string, suffix: string) => text.endsWith(suffix))]],
  ["contains", [overload(["string", "string"], "bool", (text: string, part: string) => text.includes(part))]],
  ["lowerAscii", [overload(["string"], "string", (text: string) => text.replace(/[A-Z]+/g, (s) => s.toLowerCase()))]],
  ["upperAscii", [overload(["string"], "string", (text: string) => text.replace(/[a-z]+/g, (s) => s.toUpperCase()))]],
  ...calendarMethods(),
]);

/** Whole hours, minutes or seconds of a duration. Its getMilliseconds is left out: implementations disagree on what it is. */
function calendarMethods(): [string, Overloads][] {
  const totalsMs = new Map([
    ["getHours", 3_600_000],
    ["getMinutes", 60_000],
    ["getSeconds", 1000],
  ]);
  return [...CALENDAR_FIELDS].map(([name, field]) => {
    const ofTimestamp = overload(["timestamp"], "int", (timestampMs: number) => field(new Date(timestampMs)));
    const unitMs = totalsMs.get(name);
    if (unitMs === undefined) return [name, [ofTimestamp]];
    const ofDuration = overload(["duration"], "int", (durationMs: number) => Math.trunc(durationMs / unitMs) + 0);
    return [name, [ofTimestamp, ofDuration]];
  });
}

/** Code points, as CEL counts characters. */
function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function bytesOfQuantity(text: string): number {
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) failRule(error.message);
    throw error;
  }
}

function finite(name: string, value: number): number {
  if (Number.isFinite(value)) return value;
  failRule(`${name}(${value}) is not possible`);
}

function intOfText(text: string): Int {
  if (/^[+-]?\d{1,32}$/.test(text)) return toInt(BigInt(text.replace("+", "")));
  failRule(`"${text.slice(0, 40)}" is not an int`);
}

function doubleOfText(text: string): number {
  if (/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) {
    const value = Number(text);
    if (Number.isFinite(value)) return value;
  }
  if (/^nan$/i.test(text)) return Number.NaN;
  const infinity = /^([+-]?)inf(?:inity)?$/i.exec(text);
  if (infinity !== null) return infinity[1] === "-" ? -Infinity : Infinity;
  failRule(`"${text.slice(0, 40)}" is not a double`);
}

function textOfDouble(value: number): string {
  return value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : `${value}`;
}

/** A closure that applies an overload to its arguments; one and two are unrolled, since most calls have no more. */
export function applied(chosen: FunctionOverload, runs: readonly Run<Value>[]): Run<Value> {
  const { apply } = chosen;
  const [first, second] = runs;
  if (first !== undefined && second === undefined) return (scope: Scope) => apply(first(scope));
  if (first !== undefined && second !== undefined && runs.length === 2)
    return (scope: Scope) => apply(first(scope), second(scope));
  return (scope: Scope) => apply(...runs.map((run) => run(scope)));
}
