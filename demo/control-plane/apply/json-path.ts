// The JSONPath that printer columns use: fields, indexes, [*] and one-comparison filters such as [?(@.type=="Ready")].
// Slices, unions, recursive descent and scripts are refused when the column is declared.
import { isJsonObject } from "../store/json.ts";

type Step =
  | { readonly kind: "field"; readonly name: string }
  | { readonly kind: "index"; readonly index: number }
  | { readonly kind: "every" }
  | { readonly kind: "filter"; readonly path: readonly string[]; readonly equal: boolean; readonly value: unknown };

export type JsonPath = readonly Step[];

export class JsonPathError extends Error {
  override name = "JsonPathError";
}

const FIELD = /^\.((?:[^.[\]\\]|\\.)+)/;
const QUOTED_FIELD = /^\[(?:'([^']*)'|"([^"]*)")\]/;
const INDEX = /^\[(-?\d+)\]/;
const EVERY = /^(?:\[\*\]|\.\*)/;
const FILTER = /^\[\?\(@((?:\.[\w-]+)+)\s*(==|!=)\s*("[^"]*"|'[^']*'|true|false|-?\d+(?:\.\d+)?)\)\]/;

/** Throws JsonPathError, naming what is not supported and where. */
export function parseJsonPath(source: string): JsonPath {
  const steps: Step[] = [];
  let rest = source.startsWith("{") && source.endsWith("}") ? source.slice(1, -1) : source;
  if (!rest.startsWith(".") && !rest.startsWith("[")) rest = `.${rest}`;
  while (rest !== "" && rest !== ".") {
    const [step, length] = nextStep(rest, source);
    steps.push(step);
    rest = rest.slice(length);
  }
  return steps;
}

function nextStep(rest: string, source: string): [Step, number] {
  const every = EVERY.exec(rest);
  if (every) return [{ kind: "every" }, every[0].length];
  const filter = FILTER.exec(rest);
  if (filter) return [filterStep(filter), filter[0].length];
  const index = INDEX.exec(rest);
  if (index) return [{ kind: "index", index: Number(index[1]) }, index[0].length];
  const quoted = QUOTED_FIELD.exec(rest);
  if (quoted) return [{ kind: "field", name: quoted[1] ?? quoted[2] ?? "" }, quoted[0].length];
  const field = FIELD.exec(rest);
  if (field) return [{ kind: "field", name: (field[1] ?? "").replace(/\\(.)/g, "$1") }, field[0].length];
  throw new JsonPathError(`"${source}" has "${rest}", which is not a field, index, [*] or [?(@.field=="value")]`);
}

function filterStep(match: RegExpExecArray): Step {
  const [, path = "", operator, literal = ""] = match;
  const value = literal.startsWith("'") ? literal.slice(1, -1) : (JSON.parse(literal) as unknown);
  return { kind: "filter", path: path.slice(1).split("."), equal: operator === "==", value };
}

/** The first value that the path matches, undefined when none does. */
export function firstMatch(path: JsonPath, value: unknown): unknown {
  let values: unknown[] = [value];
  for (const step of path) values = values.flatMap((each) => applyStep(step, each));
  return values[0];
}

function applyStep(step: Step, value: unknown): unknown[] {
  switch (step.kind) {
    case "field":
      return isJsonObject(value) && value[step.name] !== undefined ? [value[step.name]] : [];
    case "index":
      return Array.isArray(value) && value.at(step.index) !== undefined ? [value.at(step.index)] : [];
    case "every":
      return Array.isArray(value) ? value : isJsonObject(value) ? Object.values(value) : [];
    case "filter":
      return Array.isArray(value)
        ? value.filter((item) => (fieldAt(item, step.path) === step.value) === step.equal)
        : [];
  }
}

/** The value at a path of plain fields, undefined where a step is missing. */
export function fieldAt(value: unknown, path: readonly string[]): unknown {
  let current = value;
  for (const name of path) {
    if (!isJsonObject(current)) return undefined;
    current = current[name];
  }
  return current;
}
