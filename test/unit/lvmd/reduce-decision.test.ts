import { describe, expect, it } from "@jest/globals";
import {
  outcomeOf,
  refuseCut,
  refuseKind,
  refuseOtherUse,
  refuseReduceRequest,
  targetOf,
} from "../../../src/lvmd/volumes/reduce-decision.ts";
import type { ReduceRequest } from "../../../src/lvmd/volumes/reduce-tokens.ts";
import { EXTENT, GIB, MIB } from "./lvm-facts.ts";

const REQUEST: ReduceRequest = { volumeUUID: "u", fromBytes: 2 * GIB, toBytes: GIB, token: "t" };

describe("a request for a reduction", () => {
  it("is taken as it is meant", () => {
    expect(refuseReduceRequest(REQUEST)).toBeUndefined();
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
    expect(refuseReduceRequest({ ...REQUEST, ...wrong })).toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it.each([[{ volumeUUID: "v" }], [{ fromBytes: GIB }], [{ toBytes: GIB - 1 }]])(
    "is refused where its token stands for another one: %j",
    (other) => {
      const record = { ...REQUEST, end: { state: "Reduced", sizeBytes: GIB } as const, atMs: 0 };
      expect(refuseOtherUse(record, REQUEST)).toBeUndefined();
      expect(refuseOtherUse(record, { ...REQUEST, ...other })).toMatchObject({ code: "INVALID_ARGUMENT" });
    },
  );

  it("aims at whole extents, never under what was asked for", () => {
    expect(targetOf(REQUEST, 2 * GIB, EXTENT)).toBe(GIB);
    expect(targetOf({ ...REQUEST, toBytes: GIB + 1 }, 2 * GIB, EXTENT)).toBe(GIB + EXTENT);
    expect(targetOf({ ...REQUEST, toBytes: 2 * GIB - 1 }, 2 * GIB, 3 * EXTENT)).toBe(2 * GIB);
  });

  it("is refused where the volume has another size", () => {
    expect(targetOf(REQUEST, 2 * GIB + EXTENT, EXTENT)).toMatchObject({ code: "ABORTED" });
    expect(targetOf(REQUEST, 2 * GIB - EXTENT, EXTENT)).toMatchObject({ code: "ABORTED" });
  });
});

describe("a cut", () => {
  it.each([
    [{ kind: "Filesystem", type: "btrfs", endBytes: GIB }, undefined],
    [{ kind: "Filesystem", type: "btrfs", endBytes: GIB + 1 }, "1 beyond"],
    [{ kind: "Unknown", what: "crypto_LUKS on it" }, "crypto_LUKS"],
  ] as const)("behind %j is decided by it", (signature, refusal) => {
    expect(refuseCut(signature, GIB)?.message).toEqual(
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
  it.each([
    ["-wi-ao----", undefined],
    ["rwi-a-r---", undefined],
    ["owi-aos---", "FAILED_PRECONDITION"],
    ["Owi-aos---", "FAILED_PRECONDITION"],
    ["swi-a-s---", "FAILED_PRECONDITION"],
    ["Swi-a-s---", "FAILED_PRECONDITION"],
  ])("is not made smaller: %s", (attr, code) => {
    expect(refuseKind({ attr })?.code).toBe(code);
  });
});
