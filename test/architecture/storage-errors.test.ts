// What the agent's storage says of a failure becomes a condition or an Event as it is: at most 160 characters, with names of ordinary length.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { MESSAGE_CHARACTERS } from "../../src/contracts/printable.ts";

/** How long what a template names ordinarily is; the first that matches counts. Another's words come last and are cut where they are shown. */
const ORDINARY_LENGTHS: readonly (readonly [RegExp, number])[] = [
  [/handle/, "fs-00000000-0000-0000-0000-000000000000".length],
  [/nameOf/, "vg-data/00000000-0000-0000-0000-000000000000".length],
  [/fsid|uuid/i, "00000000-0000-0000-0000-000000000000".length],
  [/path/i, "/var/lib/tidemark/members/pvc-0123456789".length],
  [/device/, "/dev/disk/by-id/dm-uuid-1".length],
];
const SHORT = 12;

/** The templates of each `new StorageError(…)`, with the file. */
function templatesIn(path: string): string[] {
  return readFileSync(path, "utf8")
    .split("new StorageError(")
    .slice(1)
    .flatMap((after) => argumentsOf(after).match(/`(?:[^`$]|\$(?!\{)|\$\{(?:[^{}]|\{[^{}]*\})*\})*`/g) ?? []);
}

/** Up to the parenthesis that closes the call. */
function argumentsOf(text: string): string {
  let depth = 1;
  for (let index = 0; index < text.length; index += 1) {
    if (text[index] === "(") depth += 1;
    if (text[index] === ")") depth -= 1;
    if (depth === 0) return text.slice(0, index);
  }
  return text;
}

function lengthOf(template: string): number {
  const named = template.slice(1, -1).replace(/\$\{((?:[^{}]|\{[^{}]*\})*)\}/g, (_whole, expression: string) => {
    const [, length] = ORDINARY_LENGTHS.find(([pattern]) => pattern.test(expression)) ?? [undefined, SHORT];
    return "x".repeat(length);
  });
  return named.length;
}

describe("what the agent's storage says of a failure", () => {
  const templates = readdirSync("src/agent", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join("src/agent", name))
    .flatMap((path) => templatesIn(path).map((text) => ({ path, text })));

  it("is found in the source", () => {
    expect(templates.length).toBeGreaterThan(100);
    expect(lengthOf("`$" + "{volume.handle} at $" + "{path}`")).toBe(39 + 4 + 40);
  });

  it("is short enough for a condition", () => {
    expect(templates.filter(({ text }) => lengthOf(text) > MESSAGE_CHARACTERS)).toEqual([]);
  });
});
