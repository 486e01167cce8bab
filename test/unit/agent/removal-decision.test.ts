import { describe, expect, it } from "@jest/globals";
import { nextRemovalMove, type RemovalFacts } from "../../../src/agent/storage/span/removal-decision.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** Two members of 10 GiB, 2 GiB in use, half of it on the one that shall leave. */
const facts = (change: Partial<RemovalFacts> = {}): RemovalFacts => ({
  member: "m1",
  deviceBytes: 10 * GIB,
  allocatedBytes: GIB,
  othersUnallocatedBytes: 8 * GIB,
  capacityBytes: 20 * GIB,
  availableBytes: 18 * GIB,
  reserveBytes: 256 * MIB,
  balancesDone: 0,
  ...change,
});
const TIGHT = { othersUnallocatedBytes: 2.5 * GIB - 1 };

describe("taking a device out of a btrfs", () => {
  it.each<[string, Partial<RemovalFacts>, object]>([
    ["is done where the others have room for all that moves, a chunk and metadata", {}, { kind: "remove" }],
    ["is done where they have just that", { othersUnallocatedBytes: 2.5 * GIB }, { kind: "remove" }],
    ["waits for empty chunks to be given back where they have less", TIGHT, { kind: "balance", usagePercent: 0 }],
    ["then for nearly empty ones", { ...TIGHT, balancesDone: 1 }, { kind: "balance", usagePercent: 25 }],
    ["then for half empty ones", { ...TIGHT, balancesDone: 2 }, { kind: "balance", usagePercent: 50 }],
    [
      "needs less room for a chunk on a small filesystem",
      { capacityBytes: 11 * GIB, availableBytes: 10.5 * GIB, allocatedBytes: 0, othersUnallocatedBytes: 615 * MIB },
      { kind: "remove" },
    ],
  ])("%s", (_what, change, expected) => {
    expect(nextRemovalMove(facts(change))).toEqual(expected);
  });

  // Above 50 GiB the kernel makes a metadata chunk of 1 GiB, twice; at 50 GiB of 256 MiB.
  it.each([
    [50 * GIB, 2.5 * GIB],
    [50 * GIB + MIB, 4 * GIB],
  ])("needs room for the metadata chunks of a filesystem of %d bytes: %d bytes with all that moves", (size, needed) => {
    const large = { capacityBytes: size, availableBytes: size - 2 * GIB };
    expect(nextRemovalMove(facts({ ...large, othersUnallocatedBytes: needed }))).toEqual({ kind: "remove" });
    expect(nextRemovalMove(facts({ ...large, othersUnallocatedBytes: needed - 1 })).kind).toBe("balance");
  });

  it("ends with the figures where repacking was no help", () => {
    expect(nextRemovalMove(facts({ ...TIGHT, balancesDone: 3 }))).toEqual({
      kind: "floor",
      floorBytes: 20 * GIB,
      message:
        "member m1 (10Gi) stays: the other members have 2.50Gi unallocated, and taking it out safely needs 2.50Gi " +
        "(1Gi to move, and room for new chunks)",
    });
  });

  it.each([
    ["the reserve would not be left", { availableBytes: 10 * GIB + 255 * MIB }],
    ["the reserve has grown with the writer", { reserveBytes: 8 * GIB + 1 }],
    [
      "what is used would not fit, whatever is unallocated",
      { availableBytes: 9 * GIB, othersUnallocatedBytes: 10 * GIB },
    ],
  ])("is not begun, nor anything repacked for it, where %s", (_why, change) => {
    const move = nextRemovalMove(facts(change));
    const { capacityBytes, availableBytes, reserveBytes } = facts(change);
    expect(move).toMatchObject({ kind: "floor", floorBytes: capacityBytes - availableBytes + reserveBytes });
  });
});
