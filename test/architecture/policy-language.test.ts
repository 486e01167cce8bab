import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import type { VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { formatDuration } from "../../src/contracts/quantities/duration.ts";
import { compileVariables } from "../../src/policy-engine/cel/expression.ts";
import { FACT_OBJECTS, NOW } from "../../src/policy-engine/cel/fact-table.ts";
import { FUNCTIONS, type FunctionOverload, METHODS } from "../../src/policy-engine/cel/functions/functions.ts";
import * as LIMITS from "../../src/policy-engine/cel/limits.ts";
import { compilePolicy } from "../../src/policy-engine/policies/compile-policy.ts";

const page = readFileSync("docs/reference/policy-language.md", "utf8");

/** A row's cells by the heads of their columns. */
type Row = Readonly<Record<string, string>>;

const cellsOf = (line: string) =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));

function rowsOf(table: string): Row[] {
  const [heads = "", , ...lines] = table.split("\n");
  const names = cellsOf(heads);
  return lines.map((line) =>
    Object.fromEntries(cellsOf(line).map((cell, index): [string, string] => [names[index] ?? "", cell])),
  );
}

/** The rows of a section's tables that have this column. */
function rowsUnder(heading: string, column: string): Row[] {
  const section = page.split("\n## ").find((part) => part.startsWith(`${heading}\n`)) ?? "";
  const tables = section.match(/^\|.*(?:\n\|.*)*/gm) ?? [];
  return tables.flatMap(rowsOf).filter((row) => column in row);
}

const codeIn = (cell = "") => [...cell.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? "");
const wordsIn = (cell = "") => cell.split(", ");

/** The type of an expression, or what the compiler has against it. */
function compiled(expression: string): { type?: string; problem?: string | undefined; hint?: string | undefined } {
  const result = compileVariables([{ name: "x", expression }]);
  if (result.ok) return { type: result.variables.byName.get("x")?.type ?? "" };
  const [problem] = result.problems;
  return { problem: problem?.message, hint: problem?.hint };
}

/** The page says "list" and "map" where it does not matter of what. */
const plain = (type = "") => type.replace(/<.*/, "");

/** All names that the compiler itself offers where it finds one that is like none of them. */
const offeredFor = (expression: string) =>
  compiled(expression)
    .hint?.replace(/^there are /, "")
    .split(", ") ?? [];
const UNLIKE = "zzzzzzzzzzzzzzzzzzzzzz";

/** Every call that the page has a row for. */
const calls = ["Windows", "Functions", "Methods", "Macros"]
  .flatMap((heading) => rowsUnder(heading, "example"))
  .flatMap((row) => codeIn(Object.values(row)[0]))
  .map((form) => {
    const [, object, name] = /^(?:(\w+)\.)?(\w+)\(/.exec(form) ?? [];
    const isValue = object !== undefined && object !== "volume" && object !== "math";
    return { receiver: isValue ? "value" : object, name };
  });

describe("the page of the policy language", () => {
  it("names every fact, its type and its unit, and no other", () => {
    const facts = [...FACT_OBJECTS].flatMap(([object, fields]) =>
      [...fields].map(([field, fact]) => [`${object}.${field}`, fact] as const),
    );
    const known = [...facts, ["now", NOW] as const].map(([name, { type, unit }]) => [name, type, unit ?? ""]);
    const documented = rowsUnder("Facts", "fact").map(({ fact, type, unit }) => [
      codeIn(fact)[0],
      type?.replaceAll("`", ""),
      unit,
    ]);
    expect(documented).toEqual(known);
    expect(offeredFor(UNLIKE)).toEqual(["volume", "node", "variables", "now"]);
  });

  it("names every function and every method with all that they take and give, and no other", () => {
    const formsUnder = (heading: string, column: string) =>
      rowsUnder(heading, column).flatMap((row) => codeIn(row[column]).map((form) => `${form} ${row["gives"]}`));
    const forms = (overloads: readonly FunctionOverload[], write: (parameters: string[]) => string) => [
      ...new Set(overloads.map(({ parameters, result }) => `${write(parameters.map(plain))} ${result}`)),
    ];
    expect(formsUnder("Functions", "function")).toEqual(
      [...FUNCTIONS].flatMap(([name, overloads]) => forms(overloads, (taken) => `${name}(${taken.join(", ")})`)),
    );
    expect(formsUnder("Methods", "method")).toEqual(
      [...METHODS].flatMap(([name, overloads]) =>
        forms(overloads, ([receiver, ...taken]) => `${receiver}.${name}(${taken.join(", ")})`),
      ),
    );
  });

  it.each([
    ["without a receiver", `${UNLIKE}(1)`, undefined],
    ["of volume", `volume.${UNLIKE}('1h')`, "volume"],
    ["of math", `math.${UNLIKE}(1, 2)`, "math"],
    ["of values", `'a'.${UNLIKE}()`, "value"],
  ])("names all calls %s that the compiler offers for %s, and no other", (_, unknown, receiver) => {
    expect([...new Set(calls.filter((call) => call.receiver === receiver).map(({ name }) => name))].toSorted()).toEqual(
      offeredFor(unknown).toSorted(),
    );
  });

  const examples = [...page.matchAll(/^## (.+)$/gm)].flatMap(([, heading = ""]) => rowsUnder(heading, "example"));
  it.each(examples.map(({ example, gives }) => [codeIn(example)[0] ?? "", gives ?? ""]))(
    "shows with %s something that is %s",
    (example, gives) => {
      const { type, problem } = compiled(example);
      expect(problem).toBeUndefined();
      if (!/\btype\b/.test(gives)) expect(wordsIn(gives)).toContain(plain(type));
    },
  );

  const literals = rowsUnder("Types", "literals").flatMap((row) =>
    codeIn(row["literals"]).map((one) => [one, row["type"] ?? ""]),
  );
  it.each(literals)("is right that %s is a literal of type %s", (literal, type) => {
    expect(plain(compiled(literal).type)).toBe(type);
  });

  it("shows variables and a rule that compile", () => {
    const fields = parse(/```yaml\n([\s\S]+?)```/.exec(page)?.[1] ?? "") as Pick<
      VolumePolicySpec,
      "variables" | "rules"
    >;
    const spec = { limits: { max: "100Gi" }, ...fields };
    const policy = compilePolicy({
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "VolumePolicy",
      metadata: { name: "shown", namespace: "shop" },
      spec,
    });
    expect(policy.problems).toEqual([]);
    expect(policy.rules).toHaveLength(1);
  });

  it.each(rowsUnder("Refused", "refused").flatMap(({ refused }) => codeIn(refused)))(
    "is right that %s is refused",
    (source) => {
      expect(compiled(source).problem).toBeDefined();
    },
  );
});

describe("the page's operators", () => {
  const operands: Readonly<Record<string, string>> = {
    bool: "(volume.name == 'a')",
    string: "volume.name",
    int: "size(volume.name)",
    double: "volume.growthBytesPerSecond",
    duration: "(now - now)",
    timestamp: "now",
    list: "[volume.name]",
    map: "volume.labels",
  };
  const rows = rowsUnder("Operators", "operator");
  const documented = rows.flatMap(({ operator, left, right, gives }) =>
    codeIn(operator).flatMap((sign) =>
      wordsIn(left).flatMap((one) =>
        wordsIn(right).map((other) => {
          const second = other === "the same" ? one : other;
          return `${one} ${sign} ${second}: ${gives === "the same" ? one || second : gives}`;
        }),
      ),
    ),
  );
  const signs = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!"];

  it("take exactly the operands that the compiler takes", () => {
    const types = Object.keys(operands);
    const accepted = signs.flatMap((sign) =>
      ["", ...types].flatMap((left) =>
        types.flatMap((right) => {
          const { type } = compiled(`${operands[left] ?? ""} ${sign} ${operands[right] ?? ""}`);
          return type === undefined ? [] : [`${left} ${sign} ${right}: ${plain(type)}`];
        }),
      ),
    );
    expect(documented.toSorted()).toEqual(accepted.toSorted());
  });
});

describe("the page's limits", () => {
  it("are those of the code", () => {
    const figure = (name: string, value: number) =>
      name.endsWith("_MS") ? formatDuration(value) : value.toLocaleString("en-US");
    const documented = rowsUnder("Limits", "most").map((row) => [row["in `limits.ts`"], row["most"]]);
    expect(Object.fromEntries(documented)).toEqual(
      Object.fromEntries(Object.entries(LIMITS).map(([name, value]) => [name, figure(name, value)])),
    );
  });
});
