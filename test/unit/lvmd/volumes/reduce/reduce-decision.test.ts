import { describe, expect, it } from "@jest/globals";
import {
  outcomeOf,
  refusalOfCut,
  refuseKind,
  refuseOtherUse,
  refuseReduceRequest,
  targetOf,
} from "../../../../../src/lvmd/volumes/reduce/reduce-decision.ts";
import type { ReduceRequest } from "../../../../../src/lvmd/volumes/reduce/reductions.ts";
import { EXTENT, GIB, MIB } from "../../lvm-facts.ts";

const REQUEST: ReduceRequest = { volumeUUID: "u", fromBytes: 2 * GIB, toBytes: GIB, token: "t" };
const INVALID = expect.objectContaining({ code: "INVALID_ARGUMENT" });

describe("a request for a reduction", () => {
  it("is taken as it is meant", () => {
    expect(() => refuseReduceRequest(REQUEST)).not.toThrow();
  });

  it.each([
    [{ token: "" }],
    [{ token: "../a" }],
    [{ token: "x".repeat(129) }],
    [{ volumeUUID: "" }],
    [{ toBytes: 0 }],
    [{ toBytes: -1 }],
    [{ toBytes: Number.NaN }],
    [{ toBytes: 2 * GIB + 1 }],
  ])("is refused with %j", (wrong) => {
    expect(() => refuseReduceRequest({ ...REQUEST, ...wrong })).toThrow(INVALID);
  });

  it.each([[{ volumeUUID: "v" }], [{ fromBytes: GIB }], [{ toBytes: GIB - 1 }]])(
    "is refused where its token stands for another one: %j",
    (other) => {
      const record = { ...REQUEST, end: { state: "Reduced", sizeBytes: GIB } as const, atMs: 0 };
      expect(() => refuseOtherUse(record, REQUEST)).not.toThrow();
      expect(() => refuseOtherUse(record, { ...REQUEST, ...other })).toThrow(INVALID);
    },
  );

  it("aims at whole extents, never under what was asked for", () => {
    expect(targetOf(REQUEST, 2 * GIB, EXTENT)).toBe(GIB);
    expect(targetOf({ ...REQUEST, toBytes: GIB + 1 }, 2 * GIB, EXTENT)).toBe(GIB + EXTENT);
    expect(targetOf({ ...REQUEST, toBytes: 2 * GIB - 1 }, 2 * GIB, 3 * EXTENT)).toBe(2 * GIB);
  });

  it("is refused where the volume has another size", () => {
    const aborted = expect.objectContaining({ code: "ABORTED" });
    expect(() => targetOf(REQUEST, 2 * GIB + EXTENT, EXTENT)).toThrow(aborted);
    expect(() => targetOf(REQUEST, 2 * GIB - EXTENT, EXTENT)).toThrow(aborted);
  });
});

describe("a cut", () => {
  it.each([
    [{ kind: "Filesystem", type: "btrfs", endBytes: GIB }, undefined],
    [{ kind: "Filesystem", type: "btrfs", endBytes: GIB + 1 }, "1 beyond"],
    [{ kind: "Unknown", what: "crypto_LUKS on it" }, "crypto_LUKS"],
  ] as const)("behind %j is decided by it", (signature, refusal) => {
    expect(refusalOfCut(signature, GIB)?.message).toEqual(
      refusal === undefined ? undefined : expect.stringContaining(refusal),
    );
  });
});

describe("what became of a reduction of which only the begin is known", () => {
  it.each([
    ["its target's size", GIB, "Reduced"],
    ["the size from before", 2 * GIB, "Open"],
    ["a size in between", GIB + MIB, "Reduced"],
    ["a larger size than before", 3 * GIB, "Open"],
    ["no size, since it is gone", undefined, "Gone"],
  ])("is told by %s", (_case, sizeBytes, outcome) => {
    expect(outcomeOf(sizeBytes, REQUEST, GIB)).toBe(outcome);
  });
});

describe("a volume with thick snapshots, and one that is one", () => {
  it.each([["owi-aos---"], ["Owi-aos---"], ["swi-a-s---"], ["Swi-a-s---"]])("is not made smaller: %s", (attr) => {
    expect(() => refuseKind({ attr })).toThrow(expect.objectContaining({ code: "FAILED_PRECONDITION" }));
  });

  it.each([["-wi-ao----"], ["rwi-a-r---"]])("is told from others: %s", (attr) => {
    expect(() => refuseKind({ attr })).not.toThrow();
  });
});
