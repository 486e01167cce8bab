// What the kernel counts of one device, read alone and among all: on this machine's own.
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "@jest/globals";
import { readDiskFigures, readFiguresOf } from "../../../src/lvmd/diskstats.ts";
import { waitFor } from "../../harness/wait-for.ts";

describe("the figures of one device", () => {
  it("are those that the list of all devices has of it", async () => {
    const compared = await waitFor("a device that nobody uses just now", async () => {
      const before = readDiskFigures();
      const pairs = [...before].map(([numbers, first]) => {
        const [major = 0, minor = 0] = numbers.split(":").map(Number);
        return { numbers, first, alone: readFiguresOf({ major, minor }) };
      });
      const after = readDiskFigures();
      const atRest = pairs.filter(({ numbers, first }) => isDeepStrictEqual(first, after.get(numbers)));
      return atRest.length > 0 ? atRest : undefined;
    });
    for (const { first, alone } of compared) expect(alone).toEqual(first);
  });

  it("are not known of one that is not there", () => {
    expect(readFiguresOf({ major: 0, minor: 0 })).toBeUndefined();
    expect(readFiguresOf(undefined)).toBeUndefined();
  });
});
