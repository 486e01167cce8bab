// Which members leave, by their sizes and by what they hold.

import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { chunkRoomBytes } from "../../../../../src/contracts/formulas/reserve.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { mergeInto } from "../../../../../src/operator/decide/members/decide-consolidation.ts";
import {
  cheapestSet,
  largestSet,
  largestSetBeside,
} from "../../../../../src/operator/decide/members/decide-leaving.ts";
import { type Share, sumOf } from "../../../../../src/operator/decide/members/member-bytes.ts";
import { spanMember } from "../../../../builders/span.ts";
import { property } from "../../../../harness/property.ts";

/** "10" has 10 GiB, "10/4" holds 4 GiB of them. */
function sharesOf(texts: readonly string[]): Share[] {
  return texts.map((text, index) => {
    const [bytes = 0, held] = text.split("/").map((gib) => Number(gib) * GIB);
    return { member: spanMember(`m${index}`, `${bytes / GIB}Gi`), bytes, allocatedBytes: held };
  });
}

const namesOf = (shares: readonly Share[]): string =>
  shares
    .map(({ member }) => member.name)
    .sort()
    .join(" ");
const heldBytes = (shares: readonly Share[]): number =>
  shares.reduce((sum, { allocatedBytes = 0 }) => sum + allocatedBytes, 0);

describe("of a span that becomes smaller", () => {
  it.each<[string, string[], number, boolean, string]>([
    ["of equal members the empty one leaves", ["4/1", "4/0", "4/2"], 4, true, "m1"],
    ["of equal sets that which holds the least", ["2/1", "2/0", "2/0", "2/1"], 4, true, "m1 m2"],
    ["the largest set leaves although it holds more", ["4/1", "4/1", "2/0"], 4, true, "m1"],
    ["one that the others have no room for stays, and a smaller one leaves", ["10/9", "10/9", "4/0"], 10, true, "m2"],
    ["the largest is asked for where none has room", ["10/9", "10/10", "4/4"], 10, true, "m0"],
    ["only empty ones leave where data is not moved", ["8/2", "4/1", "2/0"], 4, false, "m2"],
    ["the node says why where none is empty", ["8/2", "4/1", "2/1"], 4, false, "m1"],
    ["sizes alone decide where one is not known", ["4/1", "4/0", "4"], 4, true, "m2"],
    ["none that does not fit", ["4/1", "4/0"], 3, true, ""],
  ])("%s", (_what, texts, limit, mayMove, expected) => {
    expect(namesOf(largestSet(sharesOf(texts), limit * GIB, mayMove))).toBe(expected);
  });

  it("what was made to take another's place stays, however empty it is", () => {
    expect(namesOf(largestSetBeside("m2", sharesOf(["4/4", "4/3", "2/0"]), 4 * GIB))).toBe("m1");
    expect(namesOf(largestSetBeside("m2", sharesOf(["4/4", "1/0", "3/0"]), 4 * GIB))).toBe("m0");
  });
});

describe("of a span whose members are merged", () => {
  it.each<[string, string[], number, number, string]>([
    ["of equal members the empty ones leave", ["2/1", "2/0", "2/2", "2/0"], 2, 8, "m1 m3"],
    ["a somewhat larger empty one leaves rather than a full one", ["8/4", "3/0", "2/2"], 2, 13, "m1"],
    ["no empty one is made anew that is much larger than what a small one holds", ["8/4", "8/0", "1/1"], 2, 17, "m2"],
    ["one goes without which the size is there", ["8/4", "2/0", "3/3"], 2, 10, "m1"],
    ["one goes without which the size is there, whatever it holds", ["8/4", "4/0", "3/3"], 2, 12, "m2"],
    ["sizes alone decide where one is not known", ["2/1", "2/0", "2"], 2, 6, "m2"],
  ])("%s", (_what, texts, count, size, expected) => {
    expect(namesOf(cheapestSet(sharesOf(texts), count, size * GIB))).toBe(expected);
  });
});

const member = fc.tuple(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 0, max: 64 }));
const members = fc.array(member, { minLength: 2, maxLength: 5 }).map((pairs) =>
  // Many are empty, as they are after an extend that was not needed.
  sharesOf(pairs.map(([gib, held]) => `${gib}/${held % 3 === 0 ? 0 : Math.min(gib, held)}`)),
);

function allSets(shares: readonly Share[]): Share[][] {
  const sets = shares.reduce<Share[][]>((found, share) => [...found, ...found.map((set) => [...set, share])], [[]]);
  return sets.filter(({ length }) => length > 0);
}

property(
  "whatever members hold: what leaves can, where a set can, and no other one that can gives back more, or as much and moves less",
  { runs: 500, reaches: { "one that can leave": 0.3, "one of empty members": 0.1 } },
  [members, fc.integer({ min: 1, max: 200 }), fc.boolean()],
  (reach, shares, limit, mayMove) => {
    const canLeave = (set: readonly Share[]): boolean => {
      const leftBytes = sumOf(shares) - sumOf(set);
      const least = chunkRoomBytes(leftBytes, leftBytes + Math.min(...set.map(({ bytes }) => bytes)));
      return leftBytes >= heldBytes(shares) + least && (mayMove || heldBytes(set) === 0);
    };
    const fitting = allSets(shares).filter((set) => set.length < shares.length && sumOf(set) <= limit * GIB);
    const leaving = largestSet(shares, limit * GIB, mayMove);
    expect(leaving.length > 0).toBe(fitting.length > 0);
    const able = fitting.filter(canLeave);
    if (able.length === 0) return;
    reach("one that can leave");
    expect(canLeave(leaving)).toBe(true);
    if (heldBytes(leaving) === 0) reach("one of empty members");
    for (const set of able) {
      expect(sumOf(set)).toBeLessThanOrEqual(sumOf(leaving));
      if (sumOf(set) === sumOf(leaving)) expect(heldBytes(set)).toBeGreaterThanOrEqual(heldBytes(leaving));
    }
  },
);

property(
  "whatever members hold: none stays in a merge that is no larger and holds less than one that leaves",
  { runs: 300, reaches: { "a merge": 0.5 } },
  [members, fc.integer({ min: 1, max: 4 }), fc.constantFrom("grow" as const, "replace" as const)],
  (reach, shares, count, way) => {
    const sizeBytes = sumOf(shares);
    const merge = mergeInto(count, shares, sizeBytes, way);
    if (merge === undefined) return;
    reach("a merge");
    const staying = shares.filter((share) => !merge.leaving.includes(share));
    expect(staying).toHaveLength(merge.growing === undefined ? count - 1 : count);
    expect(sumOf(staying) + merge.growthBytes).toBeGreaterThanOrEqual(sizeBytes);
    for (const left of merge.leaving)
      for (const stayed of staying)
        expect(stayed.bytes <= left.bytes && heldBytes([stayed]) < heldBytes([left])).toBe(false);
    // Decided again once that has grown, or come, and whatever has been written meanwhile: nothing grows twice.
    const [grown] = merge.growing === undefined ? [] : [merge.growing];
    const made = { member: spanMember("m9", "1Gi"), bytes: merge.growthBytes, allocatedBytes: 0 };
    const later = shares.map((share) => ({
      ...share,
      bytes: share.bytes + (share === grown ? merge.growthBytes : 0),
      allocatedBytes: sizeBytes - (share.allocatedBytes ?? 0),
    }));
    const again = mergeInto(count, grown === undefined ? [...later, made] : later, sizeBytes, way);
    expect(again?.growthBytes).toBe(0);
    expect(again?.leaving.some(({ member: { name } }) => name === "m9")).toBe(false);
  },
);
