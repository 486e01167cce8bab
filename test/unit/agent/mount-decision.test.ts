import { describe, expect, it } from "@jest/globals";
import { decideMount, type MountCandidate } from "../../../src/agent/storage/span/mount-decision.ts";

/** What the superblock of a member says. */
const candidate = (name: string, deviceCount: number, generation = 9): MountCandidate => ({
  name,
  identity: { devid: 1, deviceUUID: `uuid-${name}`, deviceCount, generation, valid: true },
});

describe("the members that a span is mounted from", () => {
  it.each<[string, MountCandidate[], readonly string[]]>([
    ["its only one", [candidate("m0", 1)], ["m0"]],
    ["all, where all are there", [candidate("m0", 2), candidate("m1", 2)], ["m0", "m1"]],
    [
      "not one that was taken out, whose superblock a power cut has kept",
      [candidate("m0", 1, 10), candidate("m1", 2, 9)],
      ["m0"],
    ],
    [
      "those that a power cut left at different commits, where none was taken out",
      [candidate("m0", 2, 10), candidate("m1", 2, 9)],
      ["m0", "m1"],
    ],
  ])("are %s", (_which, candidates, names) => {
    expect(decideMount(candidates)).toEqual({ kind: "mount", names });
  });

  it.each<[string, MountCandidate[], string, RegExp]>([
    [
      "a member is missing",
      [candidate("m0", 3), candidate("m1", 3)],
      "MembersMissing",
      /has 3 devices, and 2 .*: m0, m1;/,
    ],
    ["none carries it", [], "MembersMissing", /none/],
    [
      "two of one and the same commit say that there is one",
      [candidate("m0", 1), candidate("m1", 1)],
      "WrongFilesystem",
      /m0, m1.*a copy/,
    ],
    [
      "one of the newest commit is missing, whatever older ones there are",
      [candidate("m0", 2, 10), candidate("m1", 3, 9), candidate("m2", 3, 9)],
      "MembersMissing",
      /has 2 devices, and 1 of them are here: m0;/,
    ],
  ])("are none at all where %s", (_why, candidates, code, message) => {
    expect(decideMount(candidates)).toMatchObject({ kind: "refuse", code, message: expect.stringMatching(message) });
  });
});
