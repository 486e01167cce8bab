import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import {
  CHANGE_REASONS,
  CONDITION_REASONS,
  EVENT_REASONS,
  HOLD_REASONS,
  THIN_POOL_REASONS,
} from "../../src/contracts/reasons.ts";

const page = readFileSync("docs/reference/reasons.md", "utf8");

const REASONS = "src/contracts/reasons.ts";
/** Not standalone, either: its Events are those of the sidecars that it stands in for. */
const source = readdirSync("src", { recursive: true, encoding: "utf8" })
  .map((path) => `src/${path}`)
  .filter((path) => path.endsWith(".ts") && path !== REASONS && !/^src\/gen\//.test(path))
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
    ["Other Events", EVENT_REASONS],
  ] as const)('documents under "%s" exactly the reasons that the code knows', (heading, reasons) => {
    expect(documented(heading)).toEqual([...reasons]);
  });
});

const REASONS_KNOWN: readonly string[] = [
  ...CHANGE_REASONS,
  ...HOLD_REASONS,
  ...THIN_POOL_REASONS,
  ...CONDITION_REASONS,
  ...EVENT_REASONS,
];

describe("a reason", () => {
  it.each(REASONS_KNOWN)("%s is said somewhere", (reason) => {
    expect(source).toContain(`"${reason}"`);
  });
});

it("an Event that names its reason right where it is recorded has one that is documented", () => {
  const recorded = [...source.matchAll(/"(?:Normal|Warning)",\s*"(\w+)"/g)].map(([, reason = ""]) => reason);
  expect(recorded.length).toBeGreaterThan(5);
  expect([...new Set(recorded)].filter((reason) => !REASONS_KNOWN.includes(reason))).toEqual([]);
});
