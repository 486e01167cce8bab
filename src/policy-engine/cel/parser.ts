// The only file that touches the CEL package: it parses, and it checks types as a second opinion in addition to our own compiler. It never
// evaluates: the package's evaluator differs from the specification, and runs `matches` on backtracking RegExp.
import { type ASTNode, Environment, type ParseError, type TypeCheckResult } from "@marcbachmann/cel-js";
import { CompileError, type SourceRange } from "./errors.ts";
import { FACT_OBJECTS } from "./fact-table.ts";
import { MAX_DEPTH, MAX_EXPRESSION_CHARS, MAX_LITERAL_ITEMS } from "./limits.ts";
import type { ValueType } from "./term.ts";

export type { ASTNode };

/** A parsed expression. `check` throws CompileError unless the package, too, finds the types right and the wanted one. */
export interface Parsed {
  readonly node: ASTNode;
  readonly check: (type: ValueType) => void;
}

/** Parses, never evaluates. */
export interface Parser {
  /** Throws CompileError. */
  readonly parse: (source: string) => Parsed;
}

class VolumeObject {}
class NodeObject {}
class VariablesObject {}
class MathObject {}

type Typed = Iterable<readonly [string, { type: ValueType }]>;

/** A parser that knows the dialect's names, and a policy's variables by type. */
export function createParser(variables: Typed): Parser {
  const environment = DIALECT.clone();
  registerObject(environment, "variables", "Variables", VariablesObject, variables);
  return { parse: (source) => parse(environment, source) };
}

/** Everything but the variables; cloned, never changed. */
const DIALECT = dialectEnvironment();

function dialectEnvironment(): Environment {
  const environment = new Environment({
    limits: { maxDepth: MAX_DEPTH, maxListElements: MAX_LITERAL_ITEMS, maxMapEntries: MAX_LITERAL_ITEMS },
  });
  registerObject(environment, "volume", "Volume", VolumeObject, FACT_OBJECTS.get("volume") ?? []);
  registerObject(environment, "node", "Node", NodeObject, FACT_OBJECTS.get("node") ?? []);
  environment.registerVariable("now", packageType("timestamp"));
  registerFunctions(environment);
  return environment;
}

function registerObject(
  environment: Environment,
  name: string,
  type: string,
  ctor: new () => object,
  fields: Typed,
): void {
  const types = Object.fromEntries([...fields].map(([field, declared]) => [field, packageType(declared.type)]));
  environment.registerType(type, { ctor, fields: types }).registerVariable(name, type);
}

/** What the dialect adds to the package's own functions and operators. */
function registerFunctions(environment: Environment): void {
  for (const signature of [
    "quantity(string): int",
    "percent(double): string",
    "bytes(int): string",
    "bytes(double): string",
  ])
    environment.registerFunction(signature, refuseToEvaluate);
  environment.registerFunction("Volume.usedRatioMax(string): double", refuseToEvaluate);
  environment.registerFunction("Volume.usedBytesMax(string): int", refuseToEvaluate);
  for (const operator of ["+", "-", "*", "/"])
    for (const operands of [`int ${operator} double`, `double ${operator} int`])
      environment.registerOperator(`${operands}: double`, refuseToEvaluate);
  environment.registerType("Math", MathObject).registerConstant("math", "Math", new MathObject());
  for (const types of numberCombinations())
    for (const name of ["greatest", "least"]) {
      const result = types.includes("double") ? "double" : "int";
      environment.registerFunction(`Math.${name}(${types.join(", ")}): ${result}`, refuseToEvaluate);
    }
}

/** Every combination of two to four ints and doubles. */
function numberCombinations(): string[][] {
  let longest: string[][] = [["int"], ["double"]];
  const all: string[][] = [];
  while ((longest[0]?.length ?? 0) < 4) {
    longest = longest.flatMap((types) => [
      [...types, "int"],
      [...types, "double"],
    ]);
    all.push(...longest);
  }
  return all;
}

function refuseToEvaluate(): never {
  throw new Error("the package only parses and checks");
}

/** The package's name of a type. */
function packageType(type: ValueType): string {
  return type
    .replace(/^map</, "map<string, ")
    .replace("duration", "google.protobuf.Duration")
    .replace("timestamp", "google.protobuf.Timestamp");
}

function parse(environment: Environment, source: string): Parsed {
  const whole = { start: 0, end: source.length };
  if (source.length > MAX_EXPRESSION_CHARS) {
    const message = `the expression has ${source.length} characters, over the limit of ${MAX_EXPRESSION_CHARS}`;
    throw new CompileError(whole, message, "split it into variables");
  }
  if (source.trim() === "") throw new CompileError(whole, "the expression is empty");
  try {
    const parsed = environment.parse(source);
    return { node: parsed.ast, check: (type) => secondOpinion(parsed.check(), type, whole) };
  } catch (error) {
    throw refusalOf(error, whole, source);
  }
}

function secondOpinion(result: TypeCheckResult, type: ValueType, whole: SourceRange): void {
  if (!result.valid) throw refusalOf(result.error, whole, "");
  if (result.type !== packageType(type))
    throw new CompileError(whole, `the checkers disagree: ${type} and ${result.type}`);
}

/** The package throws its own errors, plain Errors from its registry, and RangeErrors when it runs out of stack. */
function refusalOf(error: unknown, whole: SourceRange, source: string): CompileError {
  if (error instanceof RangeError) return tooDeep(whole);
  const { code, range = whole, summary } = error as Partial<ParseError>;
  if (code === "limit_exceeded" && summary?.includes("maxDepth") === true) return tooDeep(range);
  return new CompileError(range, inPlainWords(summary ?? (error as Error).message), syntaxHint(source, range.start));
}

function inPlainWords(message: string): string {
  if (message.startsWith("Exceeded")) return `a list or map literal has more than ${MAX_LITERAL_ITEMS} items`;
  const text = message.replace(/\bEOF\b/, "end of the expression");
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** The refusal of an expression nested over MAX_DEPTH. */
export function tooDeep(range: SourceRange): CompileError {
  return new CompileError(range, `the expression is nested more than ${MAX_DEPTH} deep`, "split it into variables");
}

const SYNTAX_HINTS: readonly (readonly [RegExp, string])[] = [
  [/^=>/, "write >="],
  [/^=</, "write <="],
  [/^=/, "write == to compare"],
  [/^\.\d/, "write a digit before the point: 0.8"],
  [/^,\d/, "write a point for the decimals: 0.8"],
  [/^&/, "write && for and"],
  [/^\|/, "write || for or"],
  [/^(?:and|AND)\b/, "write && for and"],
  [/^(?:or|OR)\b/, "write || for or"],
  [/^not\b/, "write ! for not"],
  [/^[KMGTPE]i?\b/, "write a size as quantity('10Gi')"],
  [/^[smhd]\b/, "write a duration as duration('1h')"],
];

const PEAK_OF_UNQUOTED = /(used(?:Ratio|Bytes)Max)\(\s*\d+$/;

function syntaxHint(source: string, start: number): string | undefined {
  const [, peak] = PEAK_OF_UNQUOTED.exec(source.slice(0, start)) ?? [];
  if (peak !== undefined) return `a window is a string: ${peak}('24h')`;
  const rest = source.slice(start).trimStart();
  if (/%\s*$/.test(source.slice(0, start)) || rest.startsWith("%")) return "ratios are 0..1: write 0.8 instead of 80%";
  return SYNTAX_HINTS.find(([pattern]) => pattern.test(rest))?.[1];
}
