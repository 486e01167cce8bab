import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { sharingProblem } from "../../../../../src/agent/storage/decide-shrink.ts";
import {
  type DeviceRoom,
  decideRemovalMove,
  type RemovalFacts,
} from "../../../../../src/agent/storage/span/decide-removal.ts";
import { chunkRoomBytes } from "../../../../../src/contracts/formulas/reserve.ts";
import { property } from "../../../../harness/property.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

const device = (member: string, sizeBytes: number, allocatedBytes: number): DeviceRoom => ({
  member,
  sizeBytes,
  unallocatedBytes: sizeBytes - allocatedBytes,
});
/** All chunks are full. */
const facts = (
  staying: readonly DeviceRoom[],
  leaving: readonly DeviceRoom[],
  change: Partial<RemovalFacts> = {},
): RemovalFacts => {
  const all = [...staying, ...leaving];
  const sum = (of: (one: DeviceRoom) => number): number => all.reduce((bytes, one) => bytes + of(one), 0);
  const capacityBytes = sum(({ sizeBytes }) => sizeBytes);
  const availableBytes = sum(({ unallocatedBytes }) => unallocatedBytes);
  return {
    staying,
    leaving,
    capacityBytes,
    availableBytes,
    reserveBytes: 256 * MIB,
    balancesDone: 3,
    immovable: undefined,
    ...change,
  };
};
/** What each step does until nothing more can be had: data goes to the devices with the most unallocated space, as the kernel has it. */
function leftBy(first: RemovalFacts): { readonly out: readonly string[]; readonly facts: RemovalFacts } {
  const out: string[] = [];
  for (let current = first; ; ) {
    const move = decideRemovalMove(current);
    if (move.kind !== "remove") return { out, facts: current };
    out.push(move.member);
    current = removed(current, move.member);
  }
}
function removed(before: RemovalFacts, name: string): RemovalFacts {
  const gone = [...before.leaving, ...before.staying].find(({ member }) => member === name);
  if (gone === undefined) throw new Error(`${name} is not there`);
  let movingBytes = gone.sizeBytes - gone.unallocatedBytes;
  const others = [...before.staying, ...before.leaving].filter(({ member }) => member !== name);
  const after = new Map<string, DeviceRoom>();
  for (const other of others.sort((a, b) => b.unallocatedBytes - a.unallocatedBytes)) {
    const takenBytes = Math.min(movingBytes, other.unallocatedBytes);
    movingBytes -= takenBytes;
    after.set(other.member, { ...other, unallocatedBytes: other.unallocatedBytes - takenBytes });
  }
  expect(movingBytes).toBe(0);
  const now = (devices: readonly DeviceRoom[]): DeviceRoom[] =>
    devices.flatMap(({ member }) => after.get(member) ?? []);
  return {
    ...before,
    staying: now(before.staying),
    leaving: now(before.leaving),
    capacityBytes: before.capacityBytes - gone.sizeBytes,
    availableBytes: before.availableBytes - gone.sizeBytes,
  };
}

describe("taking a device out of a btrfs", () => {
  /** Two members of 10 GiB; half of what is in use is on the one that shall leave. */
  const two = (stayingBytes: number, change: Partial<RemovalFacts> = {}): RemovalFacts =>
    facts([device("m0", 10 * GIB, 10 * GIB - stayingBytes)], [device("m1", 10 * GIB, GIB)], {
      availableBytes: 18 * GIB,
      ...change,
    });
  const TIGHT = 2.5 * GIB - 1;

  it.each<[string, RemovalFacts, object]>([
    [
      "is done where the others have room for all that moves, a chunk and metadata",
      two(8 * GIB),
      { kind: "remove", member: "m1" },
    ],
    ["is done where they have just that", two(2.5 * GIB), { kind: "remove", member: "m1" }],
    [
      "waits for empty chunks to be given back where they have less",
      two(TIGHT, { balancesDone: 0 }),
      { kind: "balance", usagePercent: 0 },
    ],
    ["then for nearly empty ones", two(TIGHT, { balancesDone: 1 }), { kind: "balance", usagePercent: 25 }],
    ["then for half empty ones", two(TIGHT, { balancesDone: 2 }), { kind: "balance", usagePercent: 50 }],
  ])("%s", (_what, given, expected) => {
    expect(decideRemovalMove(given)).toEqual(expected);
  });

  describe("where snapshots may share what it holds", () => {
    const many = { immovable: sharingProblem({ others: 2, snapshots: 2, deleted: 0 }), balancesDone: 0 };

    it("is not done, and no chunks are repacked for it", () => {
      expect(decideRemovalMove(two(8 * GIB, many))).toEqual({
        kind: "floor",
        floorBytes: 20 * GIB,
        message: expect.stringMatching(/^member m1 \(10Gi\) stays: 1Gi would be moved; it has 2 snapshots/),
      });
    });

    it("is done for one that holds nothing", () => {
      const empty = facts([device("m0", 10 * GIB, GIB)], [device("m1", GIB, GIB / 2), device("m2", GIB, 0)], many);
      expect(leftBy(empty).out).toEqual(["m2"]);
    });
  });

  // A tenth of what stays, in whole 16 MiB, is the largest chunk; there are three.
  it.each([
    [GIB, 336 * MIB],
    [2 * GIB, 624 * MIB],
    [10 * GIB, 1536 * MIB],
  ])("needs room for chunks as large as btrfs makes them on %d bytes: %d bytes", (left, needed) => {
    const of = (unallocatedBytes: number): RemovalFacts =>
      facts([device("m0", left, left - unallocatedBytes)], [device("m1", GIB, 0)], { availableBytes: left + GIB / 2 });
    expect(decideRemovalMove(of(needed))).toEqual({ kind: "remove", member: "m1" });
    expect(decideRemovalMove(of(needed - 1)).kind).toBe("floor");
  });

  // Above 50 GiB the kernel makes a metadata chunk of 1 GiB, twice; at 50 GiB of 256 MiB.
  it.each([
    [50 * GIB, 1.5 * GIB],
    [50 * GIB + MIB, 3 * GIB],
  ])("needs room for the metadata chunks of a filesystem of %d bytes: %d bytes with one of data", (size, needed) => {
    const of = (unallocatedBytes: number): RemovalFacts =>
      facts([device("m0", size - 10 * GIB, size - 10 * GIB - unallocatedBytes)], [device("m1", 10 * GIB, 0)], {
        availableBytes: size - 2 * GIB,
      });
    expect(decideRemovalMove(of(needed))).toEqual({ kind: "remove", member: "m1" });
    expect(decideRemovalMove(of(needed - 1)).kind).toBe("floor");
  });

  it("ends with the figures, and the least size that would do, where repacking was no help", () => {
    expect(decideRemovalMove(two(TIGHT))).toEqual({
      kind: "floor",
      // What is allocated of both, 512 MiB of metadata and 1 GiB of data chunks.
      floorBytes: 10 * GIB - TIGHT + GIB + 1.5 * GIB,
      message:
        "member m1 (10Gi) stays: taking it out safely needs 2.50Gi (1Gi to move, and new chunks), " +
        "and the others have 2.50Gi unallocated",
    });
  });

  it.each([
    ["the reserve would not be left", two(8 * GIB, { availableBytes: 10 * GIB + 255 * MIB, balancesDone: 0 })],
    ["the reserve has grown with the writer", two(8 * GIB, { reserveBytes: 8 * GIB + 1, balancesDone: 0 })],
    [
      "what is used would not fit, whatever is unallocated",
      two(10 * GIB, { availableBytes: 9 * GIB, balancesDone: 0 }),
    ],
  ])("is not begun, nor anything repacked for it, where %s", (_why, given) => {
    const { capacityBytes, availableBytes, reserveBytes } = given;
    const floorBytes = capacityBytes - availableBytes + reserveBytes;
    expect(decideRemovalMove(given)).toMatchObject({ kind: "floor", floorBytes });
  });
});

describe("taking several devices out of a btrfs", () => {
  it("takes three empty ones of four out, though the fourth alone has little room for chunks", () => {
    const empty = [device("m1", GIB, 0), device("m3", GIB, 0), device("m4", 2 * GIB, 0)];
    const { out } = leftBy(facts([device("m0", GIB, 438 * MIB)], empty, { balancesDone: 0 }));
    expect(out).toEqual(["m4", "m3", "m1"]);
  });

  it("takes the empty one out first, though it is not the newest", () => {
    const leaving = [device("m1", GIB, 0), device("m2", GIB, 320 * MIB)];
    expect(decideRemovalMove(facts([device("m0", GIB, 118 * MIB)], leaving))).toEqual({ kind: "remove", member: "m1" });
  });

  it("takes out what can be had where not all can, and of equal sizes what moves the least", () => {
    const leaving = [device("m1", GIB, 300 * MIB), device("m2", GIB, 200 * MIB), device("m3", 2 * GIB, GIB)];
    const { out, facts: after } = leftBy(facts([device("m0", 2 * GIB, 900 * MIB)], leaving));
    expect(out).toEqual(["m2", "m1"]);
    expect(decideRemovalMove(after)).toMatchObject({
      kind: "floor",
      message: expect.stringMatching(/^member m3 .*stays/),
    });
  });

  it("repacks chunks before it is content with a part, where all would have space", () => {
    const leaving = [device("m1", GIB, 0), device("m2", GIB, 900 * MIB)];
    const given = facts([device("m0", 2 * GIB, 1100 * MIB)], leaving, { availableBytes: 3 * GIB, balancesDone: 0 });
    expect(decideRemovalMove(given)).toEqual({ kind: "balance", usagePercent: 0 });
    expect(decideRemovalMove({ ...given, balancesDone: 3 })).toEqual({ kind: "remove", member: "m1" });
  });

  const members = fc
    .array(fc.record({ sizeBytes: fc.integer({ min: 1, max: 60 }), share: fc.integer({ min: 0, max: 4 }) }), {
      minLength: 2,
      maxLength: 4,
    })
    .map((drawn) =>
      drawn.map(({ sizeBytes, share }, index) =>
        device(`m${index}`, sizeBytes * GIB, share === 0 ? 0 : Math.floor((sizeBytes * GIB * share) / 6)),
      ),
    );

  property(
    "as many bytes leave as btrfs can give back safely in some order, and no step is unsafe",
    { runs: 400, reaches: { all: 0.1, some: 0.05, none: 0.05 } },
    [members, fc.integer({ min: 1, max: 3 }), fc.integer({ min: 0, max: 8 })],
    (reach, devices, stayingCount, reserveGiB) => {
      const staying = devices.slice(0, Math.min(stayingCount, devices.length - 1));
      const leaving = devices.slice(staying.length);
      const given = facts(staying, leaving, { reserveBytes: reserveGiB * GIB });
      const { out, facts: after } = leftBy(given);
      expect(given.capacityBytes - after.capacityBytes).toBe(mostBytes(given));
      for (let [step, current] = [0, given]; step < out.length; step += 1) {
        const name = out[step] ?? "";
        expect(isSafe(current, name)).toBe(true);
        current = removed(current, name);
      }
      reach(out.length === leaving.length ? "all" : out.length === 0 ? "none" : "some");
    },
  );

  property(
    "a floor is a size at which the same data would be held by members that can be given back to",
    { runs: 600, reaches: { floor: 0.04 } },
    [members, fc.integer({ min: 0, max: 8 })],
    (reach, devices, reserveGiB) => {
      const given = facts(devices.slice(0, 1), devices.slice(1), { reserveBytes: reserveGiB * GIB });
      const move = decideRemovalMove(given);
      if (move.kind !== "floor" || move.floorBytes >= given.capacityBytes) return;
      const allocatedBytes = given.capacityBytes - given.availableBytes;
      // A member of just what is over would leave, one of a MiB more would not.
      const over = (bytes: number): RemovalFacts =>
        facts([device("rest", bytes, allocatedBytes)], [device("over", given.capacityBytes - bytes, 0)], {
          reserveBytes: reserveGiB * GIB,
        });
      expect(decideRemovalMove(over(move.floorBytes)).kind).toBe("remove");
      expect(decideRemovalMove(over(move.floorBytes - 17 * MIB)).kind).toBe("floor");
      reach("floor");
    },
  );
});

/** One removal, by itself. */
function isSafe(
  { staying, leaving, capacityBytes, availableBytes, reserveBytes }: RemovalFacts,
  name: string,
): boolean {
  const all = [...staying, ...leaving];
  const { sizeBytes = 0, unallocatedBytes = 0 } = all.find(({ member }) => member === name) ?? {};
  const others = all.filter(({ member }) => member !== name);
  const roomBytes = others.reduce((sum, one) => sum + one.unallocatedBytes, 0);
  const leftBytes = capacityBytes - sizeBytes;
  return (
    leftBytes >= capacityBytes - availableBytes + reserveBytes &&
    roomBytes >= sizeBytes - unallocatedBytes + chunkRoomBytes(leftBytes, capacityBytes)
  );
}

/** By trying every order, one safe removal after the other. */
function mostBytes(given: RemovalFacts): number {
  const each = given.leaving.map(({ member, sizeBytes }) =>
    isSafe(given, member) ? sizeBytes + mostBytes(removed(given, member)) : 0,
  );
  return Math.max(0, ...each);
}
