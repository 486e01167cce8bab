import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { CHANGE_REASONS, CONDITION_REASONS, HOLD_REASONS, THIN_POOL_REASONS } from "../../src/api/reasons.ts";

const page = readFileSync("docs/reference/reasons.md", "utf8");

const REASONS = "src/api/reasons.ts";
const source = readdirSync("src", { recursive: true, encoding: "utf8" })
  .map((path) => `src/${path}`)
  .filter((path) => path.endsWith(".ts") && path !== REASONS && !/^src\/(gen|apiserver|demo)\//.test(path))
  .map((path) => readFileSync(path, "utf8"))
  .join("\n");

function documented(heading: string): string[] {
  const section = page.split("\n## ").find((part) => part.startsWith(heading)) ?? "";
  return [...section.matchAll(/^\| ([A-Z]\w+) +\|/gm)].map(([, reason]) => reason ?? "");
}

describe("the page of reasons", () => {
  it.each([
    ["A size changes", CHANGE_REASONS],
    ["A size stays", HOLD_REASONS],
    ["Thin pools", THIN_POOL_REASONS],
    ["Conditions", CONDITION_REASONS],
  ] as const)('documents under "%s" exactly the reasons that the code knows', (heading, reasons) => {
    expect(documented(heading)).toEqual([...reasons]);
  });
});

describe("a reason", () => {
  it.each([...CHANGE_REASONS, ...HOLD_REASONS, ...THIN_POOL_REASONS, ...CONDITION_REASONS])(
    "%s is said somewhere",
    (reason) => {
      expect(source).toContain(`"${reason}"`);
    },
  );
});
