import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, it } from "@jest/globals";

const PAGE = "docs/architecture/proof.md";
const INVARIANTS = 15;
const LEVELS = ["pure", "process", "filesystem", "LVM", "cluster"];
const HEADING = /^## (I\d+): /m;

interface Proof {
  readonly level: string;
  readonly suite: string;
  /** Undefined: all of the suite. */
  readonly case: string | undefined;
}

/** Throws on a row of another form. */
function proofsOf(section: string): Proof[] {
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  return rows.slice(2).map((row) => {
    const [, level = "", suite = "", name = ""] = row.split("|").map((cell) => cell.trim());
    const path = /^\[[^\]]+\]\(([^)]+)\)$/.exec(suite)?.[1];
    const quoted = /^"(.+)"$/.exec(name)?.[1];
    if (path === undefined || (quoted === undefined && name !== "all"))
      throw new Error(`${PAGE}: "${row}" is no proof`);
    return { level, suite: normalize(join(dirname(PAGE), path)), case: quoted };
  });
}

const [, ...parts] = readFileSync(PAGE, "utf8").split(HEADING);
const sections = new Map<string, string>();
for (let index = 0; index < parts.length; index += 2) sections.set(parts[index] ?? "", parts[index + 1] ?? "");

function isThere({ suite, case: name }: Proof): boolean {
  return existsSync(suite) && (name === undefined || readFileSync(suite, "utf8").includes(name));
}

describe("the page of proofs", () => {
  it("has a section for each invariant", () => {
    expect([...sections.keys()]).toEqual(Array.from({ length: INVARIANTS }, (_, index) => `I${index + 1}`));
  });

  it.each([...sections])("names suites and cases that are there for %s", (_invariant, section) => {
    const proofs = proofsOf(section);
    expect(proofs.length).toBeGreaterThan(0);
    expect(proofs.filter((proof) => !isThere(proof))).toEqual([]);
    expect(proofs.filter(({ level }) => !LEVELS.includes(level))).toEqual([]);
  });

  it.each([...sections])("says what is not proven of %s", (_invariant, section) => {
    expect(section).toMatch(/^Not proven[,:]/m);
  });
});
