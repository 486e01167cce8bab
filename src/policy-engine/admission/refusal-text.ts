// What the author of a policy that does not compile reads in a terminal: each problem with its field, its line, a caret under the place and
// a hint. Pure.
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { PolicyProblem } from "../policies/compiled-policy.ts";

const PROBLEMS_SHOWN = 5;
/** Of a line of an expression, around the place. */
const BEFORE_CHARS = 48;
const AFTER_CHARS = 48;
const INDENT = "    ";

/** Several lines, without one at the end. Not empty: `problems` has at least one. */
export function refusalText(policy: AnyPolicy, problems: readonly PolicyProblem[]): string {
  const { namespace, name } = policy.metadata;
  const key = namespace === undefined ? name : `${namespace}/${name}`;
  const shown = problems.slice(0, PROBLEMS_SHOWN).map((problem) => problemText(policy, problem));
  const more = problems.length - shown.length;
  return [
    `${policy.kind} ${key} does not compile:`,
    ...shown,
    ...(more > 0 ? [`and ${more} more ${more === 1 ? "problem" : "problems"}`] : []),
  ].join("\n");
}

function problemText(policy: AnyPolicy, { field, message, hint, line, column }: PolicyProblem): string {
  const hinted = hint === undefined ? [] : [`${INDENT}hint: ${hint}`];
  if (line === undefined || column === undefined) return [`${field}: ${message}`, ...hinted].join("\n");
  const source = textAt(policy, field)?.split("\n")[line - 1];
  const place = source === undefined ? [] : underlined(source, column);
  return [`${field}, line ${line}, column ${column}: ${message}`, ...place, ...hinted].join("\n");
}

/** The line, or what of it is near the column, and a caret under that. */
function underlined(line: string, column: number): string[] {
  const at = column - 1;
  const from = Math.max(0, at - BEFORE_CHARS);
  const to = Math.min(line.length, at + AFTER_CHARS);
  const [start, end] = [from > 0 ? "…" : "", to < line.length ? "…" : ""];
  const before = start + printable(line.slice(from, at));
  return [`${INDENT}${before}${printable(line.slice(at, to))}${end}`, `${INDENT}${" ".repeat([...before].length)}^`];
}

/** A terminal shows it as it is. */
function printable(text: string): string {
  return text.replaceAll(/\p{C}/gu, " ");
}

/** The text of a field such as "spec.rules[0].when". */
function textAt(policy: AnyPolicy, field: string): string | undefined {
  let value: unknown = policy;
  for (const part of field.match(/[^.[\]]+/g) ?? []) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[part];
  }
  return typeof value === "string" ? value : undefined;
}
