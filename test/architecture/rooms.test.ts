// A folder is a room: few enough files that its names are read at once, and a process' four words at one depth. Unit tests stand where what
// they test does.
import { existsSync, readdirSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { describe, expect, it } from "@jest/globals";

const FILES_LIMIT = 15;

/** Folders that still have more, each with its number: one that grows fails, and one that has become smaller is corrected here. */
const LARGER: Readonly<Record<string, number>> = {};

/** Processes that decide about a subject of their own; lvmd does what it is asked. */
const IN_ROOMS = ["agent", "operator", "policy-engine", "extender"];

/** What a process does with one of its subjects, in this order. */
const FOUR_WORDS = ["gather", "decide", "apply", "report"];

/** Unit tests of what several rooms of a process do together. */
const OF_SEVERAL_ROOMS = [
  "agent/node-scope.test.ts",
  "cli/hostile-policy.test.ts",
  "extender/place-pods-burst.test.ts",
  "extender/place-pods-filter.test.ts",
  "extender/place-pods-verdicts.test.ts",
  "operator/member-guard-policy.test.ts",
  "policy-engine/invariants.test.ts",
];

/** Those with files of their own or below: git leaves an empty one behind where its files have been moved away. */
function foldersBelow(directory: string): string[] {
  const folders = readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const below = folders.flatMap(({ name }) => foldersBelow(join(directory, name)));
  return below.length > 0 || filesIn(directory) > 0 ? [directory, ...below] : [];
}

function filesIn(directory: string): number {
  return readdirSync(directory, { withFileTypes: true }).filter((entry) => entry.isFile()).length;
}

describe("the rooms of src", () => {
  it(`have at most ${FILES_LIMIT} files each, save those that are listed with their number`, () => {
    const larger = foldersBelow("src").flatMap((folder) => {
      const files = filesIn(folder);
      return files > FILES_LIMIT ? [[folder, files] as const] : [];
    });
    expect(Object.fromEntries(larger)).toEqual(LARGER);
  });

  it.each(IN_ROOMS)("show gather, decide, apply and report right below %s", (name) => {
    expect(FOUR_WORDS.filter((word) => !readdirSync(join("src", name)).includes(word))).toEqual([]);
  });

  it("have one name each within a process", () => {
    for (const name of IN_ROOMS) {
      const names = foldersBelow(join("src", name)).map((folder) => basename(folder));
      expect(names.filter((one, index) => names.indexOf(one) !== index)).toEqual([]);
    }
  });
});

/** What a unit test is about stands at its own path below src; of what more than one room does together, right below its process. */
describe("the unit tests", () => {
  const ROOTS = readdirSync("src").filter((name) => existsSync(join("test/unit", name)));

  it.each(ROOTS)("of %s stand in folders that it has in src", (root) => {
    const folders = foldersBelow(join("test/unit", root)).map((folder) => relative("test/unit", folder));
    expect(folders.filter((folder) => !existsSync(join("src", folder)))).toEqual([]);
  });

  it("right below a process are of a file there, or of several rooms", () => {
    const flat = ROOTS.flatMap((root) =>
      readdirSync(join("test/unit", root))
        .filter((name) => name.endsWith(".test.ts") && !existsSync(join("src", root, name.replace(".test.ts", ".ts"))))
        .map((name) => `${root}/${name}`),
    );
    expect(flat.sort()).toEqual(OF_SEVERAL_ROOMS);
  });
});
