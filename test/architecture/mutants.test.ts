import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { broken, isCaught, type Mutant, readMutants, registryFiles } from "../mutants/registry.ts";

const FILES = registryFiles();
const ALL = FILES.flatMap(readMutants);

function offenders(offends: (mutant: Mutant) => boolean): string[] {
  return ALL.filter(offends).map(({ id, file }) => `${id} (${file})`);
}

describe("the planted bugs", () => {
  it("are there", () => {
    expect(FILES.length).toBeGreaterThan(0);
    expect(ALL.length).toBeGreaterThan(20);
  });

  it("have a name of their own each, and are sorted by it in their file", () => {
    const names = ALL.map(({ id }) => id);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    for (const file of FILES) {
      const ids = readMutants(file).map(({ id }) => id);
      expect(ids).toEqual([...ids].sort());
    }
  });

  it("each change text that stands exactly once in their file", () => {
    const places = (text: string, { old }: Mutant): number => text.split(old).length - 1;
    expect(
      offenders((mutant) => !existsSync(mutant.file) || places(readFileSync(mutant.file, "utf8"), mutant) !== 1),
    ).toEqual([]);
    expect(offenders((mutant) => mutant.old === mutant.new)).toEqual([]);
  });

  it("each name tests that are there", () => {
    expect(offenders((mutant) => isCaught(mutant) && mutant.caughtBy.some((path) => !existsSync(path)))).toEqual([]);
  });

  it("each have a fast test, or one slow suite at the end of the list", () => {
    const isSlow = (path: string): boolean => /^test\/(real|e2e)\//.test(path);
    expect(offenders((mutant) => isCaught(mutant) && mutant.caughtBy.slice(0, -1).some(isSlow))).toEqual([]);
    expect(offenders((mutant) => isCaught(mutant) && mutant.seen === false && !mutant.caughtBy.every(isSlow))).toEqual(
      [],
    );
  });
});

describe("a planted bug", () => {
  const mutant = { id: "z01", file: "src/z.ts", old: "a > b", new: "a >= $& b" };

  it("changes its text alone, and takes nothing in it for a pattern", () => {
    expect(broken("if (a > b) c();", mutant)).toBe("if (a >= $& b) c();");
  });

  it.each(["if (c) d();", "a > b && a > b"])("is refused where its text does not stand once: %s", (text) => {
    expect(() => broken(text, mutant)).toThrow("not once");
  });
});
