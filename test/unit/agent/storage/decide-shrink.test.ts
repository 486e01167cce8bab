import { describe, expect, it } from "@jest/globals";
import {
  afterForeignCancel,
  cancelReason,
  DEVICE_MIN_BYTES,
  decideShrinkMove,
  type MemberRoom,
  roomProblem,
  type ShrinkFacts,
  type SpaceSample,
  STEP_MAX_BYTES,
  STEP_MIN_BYTES,
  sharingProblem,
} from "../../../../src/agent/storage/decide-shrink.ts";

const MIB = 2 ** 20;
const GIB = 2 ** 30;

function makeFacts(overrides: Partial<ShrinkFacts> = {}): ShrinkFacts {
  const sizeBytes = overrides.sizeBytes ?? 8 * GIB;
  const usedBytes = overrides.usedBytes ?? 512 * MIB;
  return {
    sizeBytes,
    usedBytes,
    targetBytes: 2 * GIB,
    availableBytes: sizeBytes - usedBytes,
    reserveBytes: 256 * MIB,
    filesystemMinBytes: 300 * MIB,
    stepMaxBytes: STEP_MAX_BYTES,
    grainBytes: 4096,
    balancesDone: 0,
    room: undefined,
    immovable: undefined,
    ...overrides,
  };
}

const place = (freeBytes: number): MemberRoom => ({
  ...{ place: "thin pool vg/pool", freeBytes, holeBytes: 6 * GIB },
  lagMs: 5000,
});

describe("decideShrinkMove", () => {
  it.each([
    ["takes a step of 1 GiB where there is room", {}, { kind: "resize", toBytes: 7 * GIB }],
    ["ends at the target exactly", { sizeBytes: 2 * GIB + 100 * MIB }, { kind: "resize", toBytes: 2 * GIB }],
    ["ends at the target even by a tiny step", { sizeBytes: 2 * GIB + 4096 }, { kind: "resize", toBytes: 2 * GIB }],
    ["is done at the target", { sizeBytes: 2 * GIB }, { kind: "reached" }],
    ["is done under the target", { sizeBytes: 1 * GIB }, { kind: "reached" }],
    [
      "takes small steps where data that is moved has reached the reserve before",
      { stepMaxBytes: STEP_MIN_BYTES },
      { kind: "resize", toBytes: 8 * GIB - 256 * MIB },
    ],
    [
      "takes a smaller step where a large one and a chunk in motion would not leave the reserve",
      { sizeBytes: 4 * GIB, usedBytes: 2.5 * GIB },
      { kind: "resize", toBytes: 3.25 * GIB },
    ],
    [
      "takes a smaller step where the host or pool has no room for all that a large one may move",
      { usedBytes: 3 * GIB, room: place(1900 * MIB) },
      { kind: "resize", toBytes: 7.5 * GIB },
    ],
    [
      "takes any step on a full host where the member has no holes",
      { usedBytes: 3 * GIB, room: { ...place(0), holeBytes: 0 } },
      { kind: "resize", toBytes: 7 * GIB },
    ],
    [
      "takes any step where the host has room for all that the filesystem holds",
      { usedBytes: 100 * MIB, room: place(620 * MIB) },
      { kind: "resize", toBytes: 7 * GIB },
    ],
    [
      "never plans under used + reserve",
      { sizeBytes: 3 * GIB, usedBytes: 2 * GIB, reserveBytes: 900 * MIB },
      { kind: "resize", toBytes: 2 * GIB + 900 * MIB },
    ],
    [
      "never plans under the filesystem's own minimum",
      { sizeBytes: 4 * GIB, filesystemMinBytes: 3.5 * GIB, balancesDone: 3 },
      { kind: "resize", toBytes: 3.5 * GIB },
    ],
    [
      "never plans a device under 256 MiB",
      { sizeBytes: 400 * MIB, targetBytes: 10 * MIB, usedBytes: 1 * MIB, reserveBytes: 0, filesystemMinBytes: 2 * MIB },
      { kind: "resize", toBytes: DEVICE_MIN_BYTES },
    ],
    [
      "goes to whole grains of the member, up, since down could be under the floor",
      { sizeBytes: 4 * GIB, grainBytes: 48 * MIB, filesystemMinBytes: 3.5 * GIB, balancesDone: 3 },
      { kind: "resize", toBytes: 3600 * MIB },
    ],
    [
      "stays where whole grains leave no step that is worth it",
      { sizeBytes: 3600 * MIB, grainBytes: 48 * MIB, filesystemMinBytes: 3530 * MIB, balancesDone: 3 },
      expect.objectContaining({ kind: "floor", floorBytes: 3530 * MIB }),
    ],
  ] as const)("%s", (_name, overrides, move) => {
    expect(decideShrinkMove(makeFacts(overrides))).toMatchObject(move);
  });

  it("repacks chunks up to 0, 25, 50% used, once each, where only the filesystem's minimum is in the way", () => {
    const moves = [0, 1, 2, 3].map((balancesDone) =>
      decideShrinkMove(makeFacts({ sizeBytes: 4 * GIB, filesystemMinBytes: 4 * GIB, balancesDone })),
    );
    expect(moves.map((move) => (move.kind === "balance" ? move.usagePercent : move.kind))).toEqual([
      0,
      25,
      50,
      "floor",
    ]);
  });

  it("does not repack where used + reserve are in the way as well", () => {
    const move = decideShrinkMove(
      makeFacts({ sizeBytes: 4 * GIB, usedBytes: 3 * GIB, reserveBytes: GIB, filesystemMinBytes: 4 * GIB }),
    );
    expect(move.kind).toBe("floor");
  });

  describe("of a filesystem whose data must not be moved", () => {
    const immovable = { reason: "it has 3 snapshots", endBytes: 3 * GIB };

    it("gives back what lies behind its last chunk, and no more", () => {
      expect(decideShrinkMove(makeFacts({ sizeBytes: 3.5 * GIB, immovable }))).toMatchObject({
        kind: "resize",
        toBytes: 3 * GIB,
      });
      expect(decideShrinkMove(makeFacts({ sizeBytes: 3 * GIB, immovable }))).toMatchObject({
        kind: "floor",
        floorBytes: 3 * GIB,
      });
    });

    it("repacks no chunks", () => {
      const move = decideShrinkMove(makeFacts({ sizeBytes: 3 * GIB, filesystemMinBytes: 3 * GIB, immovable }));
      expect(move.kind).toBe("floor");
    });

    it("still never plans under used + reserve, nor under the filesystem's own minimum", () => {
      const facts = { sizeBytes: 8 * GIB, usedBytes: 5 * GIB, reserveBytes: GIB, immovable };
      expect(decideShrinkMove(makeFacts({ ...facts, sizeBytes: 6 * GIB })).kind).toBe("floor");
      expect(
        decideShrinkMove(makeFacts({ ...facts, usedBytes: GIB, sizeBytes: 6 * GIB, filesystemMinBytes: 6 * GIB })).kind,
      ).toBe("floor");
    });

    it.each([
      ["is one snapshot", { others: 1, snapshots: 1, deleted: 0 }, "1 snapshot and"],
      ["is a subvolume that is being deleted", { others: 0, snapshots: 0, deleted: 1 }, "1 deleted"],
      ["are more than 16 subvolumes", { others: 16, snapshots: 0, deleted: 0 }, "17 subvolumes"],
      ["are 16 subvolumes, none of them a snapshot", { others: 15, snapshots: 0, deleted: 0 }, undefined],
    ])("is told by its subvolumes: there %s", (_what, subvolumes, said) => {
      const problem = sharingProblem(subvolumes);
      if (said === undefined) expect(problem).toBeUndefined();
      else expect(problem).toContain(said);
    });

    it("says why", () => {
      const move = decideShrinkMove(makeFacts({ sizeBytes: 3 * GIB, immovable }));
      if (move.kind !== "floor") throw new Error(move.kind);
      for (const text of ["it has 3 snapshots", "ends at 3Gi"]) expect(move.message).toContain(text);
    });
  });

  it("names the floor and what it is made of", () => {
    const move = decideShrinkMove(makeFacts({ sizeBytes: 3 * GIB, usedBytes: 2 * GIB, reserveBytes: GIB }));
    if (move.kind !== "floor") throw new Error(move.kind);
    expect(move.floorBytes).toBe(3 * GIB);
    for (const text of ["3Gi is the least", "used 2Gi", "reserve 1Gi", "300Mi"]) expect(move.message).toContain(text);
  });
});

describe("cancelReason", () => {
  /** One sample each 50 ms, the last ones given by functions of the index. */
  function makeSamples(count: number, available: (index: number) => number, data: (index: number) => number) {
    return Array.from(
      { length: count },
      (_, index): SpaceSample => ({ atMs: index * 50, availableBytes: available(index), dataBytes: data(index) }),
    );
  }

  it("lets a step go on without samples, and while there is room", () => {
    expect(cancelReason([], 256 * MIB)).toBeUndefined();
    expect(
      cancelReason(
        makeSamples(
          20,
          () => GIB,
          () => 0,
        ),
        256 * MIB,
      ),
    ).toBeUndefined();
  });

  it("cancels under the reserve at the first sample", () => {
    expect(
      cancelReason(
        makeSamples(
          1,
          () => 255 * MIB,
          () => 0,
        ),
        256 * MIB,
      ),
    ).toContain("under the reserve");
  });

  it("cancels when a writer would reach the reserve before the cancel is done", () => {
    const samples = makeSamples(
      21,
      () => 500 * MIB,
      (index) => index * 20 * MIB,
    );
    expect(cancelReason(samples, 256 * MIB)).toContain("would be reached");
    expect(cancelReason(samples, 50 * MIB)).toBeUndefined();
  });

  it("does not take a chunk that is moved for a writer", () => {
    const samples = makeSamples(
      21,
      () => 500 * MIB,
      (index) => (index % 6) * 60 * MIB,
    );
    expect(cancelReason(samples, 256 * MIB)).toBeUndefined();
  });
});

describe("a step that somebody else has cancelled", () => {
  it("is asked for once more, and ends the shrink when the next one is cancelled, too", () => {
    expect(afterForeignCancel(0, GIB)).toBe("again");
    expect(afterForeignCancel(1, GIB)).toMatchObject({
      outcome: "Cancelled",
      sizeBytes: GIB,
      message: expect.stringContaining("2 steps"),
    });
  });
});

describe("the room where the member lies", () => {
  it("is counted with the whole chunk that may reach past the new end", () => {
    const facts = { usedBytes: 3 * GIB, stepMaxBytes: STEP_MIN_BYTES };
    const move = (freeBytes: number) => decideShrinkMove(makeFacts({ ...facts, room: place(freeBytes) })).kind;
    const needed = STEP_MIN_BYTES + 0.8 * GIB + 512 * MIB;
    expect([move(Math.ceil(needed)), move(Math.floor(needed) - 1)]).toEqual(["resize", "no-room"]);
  });

  it.each([
    ["a step", { usedBytes: 3 * GIB }],
    ["a balance", { usedBytes: 3 * GIB, filesystemMinBytes: 8 * GIB, balancesDone: 1 }],
  ])("ends the shrink, by its name, before %s for which it is too small", (_what, facts) => {
    const move = decideShrinkMove(makeFacts({ ...facts, room: place(300 * MIB) }));
    expect(move).toHaveProperty("kind", "no-room");
    expect(move).toHaveProperty(
      "message",
      expect.stringMatching(/thin pool vg\/pool, which has 300Mi free; free space/),
    );
  });

  it("cancels a step that runs once somebody else has filled it, unless the member has no holes", () => {
    expect(roomProblem(place(256 * MIB))).toBeUndefined();
    expect(roomProblem(place(255 * MIB))).toMatch(/^thin pool vg\/pool has 255Mi free/);
    expect(roomProblem({ ...place(0), holeBytes: 0 })).toBeUndefined();
  });
});
