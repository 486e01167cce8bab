import { describe, expect, it } from "@jest/globals";
import { decideMount, type MountCandidate } from "../../../../../src/agent/storage/span/decide-mount.ts";

/** What the superblock of a member says: m0 is device 1. */
const candidate = (name: string, deviceCount: number, generation = 9): MountCandidate => ({
  name,
  identity: { devid: Number(name.slice(1)) + 1, deviceUUID: `uuid-${name}`, deviceCount, generation, valid: true },
});
const copyOf = (name: string, deviceCount: number): MountCandidate => ({
  ...candidate(name, deviceCount),
  name: "copy",
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
      /has 3 devices, and 2 .*: m0, m1$/,
    ],
    ["none carries it", [], "MembersMissing", /none/],
    [
      "two of one and the same commit say that there is one",
      [candidate("m0", 1), candidate("m1", 1)],
      "WrongFilesystem",
      /take the copy out.*m0, m1/,
    ],
    [
      "one is the copy of another, in the place of a third",
      [candidate("m0", 2), copyOf("m0", 2)],
      "WrongFilesystem",
      /copy out of the layout: members m0 and copy both say that they are device 1 \(uuid-m0\)/,
    ],
    [
      "one is more than one commit behind, as an earlier copy of itself is",
      [candidate("m0", 2, 11), candidate("m1", 2, 9)],
      "WrongFilesystem",
      /more than one commit apart \(m0 11, m1 9\)/,
    ],
    [
      "one of the newest commit is missing, whatever older ones there are",
      [candidate("m0", 2, 10), candidate("m1", 3, 9), candidate("m2", 3, 9)],
      "MembersMissing",
      /has 2 devices, and 1 of them are here: m0$/,
    ],
  ])("are none at all where %s", (_why, candidates, code, message) => {
    expect(decideMount(candidates)).toMatchObject({ kind: "refuse", code, message: expect.stringMatching(message) });
  });
});
