// A folder is a room: few enough files that its names are read at once, and a process' four words at one depth.
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "@jest/globals";

const FILES_LIMIT = 15;

/** Folders that still have more, each with its number: one that grows fails, and one that has become smaller is corrected here. */
const LARGER: Readonly<Record<string, number>> = {
  "src/agent/storage/span": 27,
  "src/api": 34,
  "src/lvmd/volumes": 23,
  "src/operator/csi": 33,
  "src/operator/member": 51,
  "src/operator/volume": 22,
  "src/process": 25,
};

/** Processes whose files are in rooms: the operator's are not yet. */
const IN_ROOMS = ["agent", "policy-engine", "extender"];

/** What a process does with one of its subjects, in this order. */
const FOUR_WORDS = ["gather", "decide", "apply", "report"];

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
