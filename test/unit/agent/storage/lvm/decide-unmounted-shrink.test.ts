import { describe, expect, it } from "@jest/globals";
import {
  decideFinish,
  decideGuardedShrink,
  type Finish,
  type InterruptionFacts,
  type UnmountedShrinkFacts,
  type UnmountedShrinkRecord,
} from "../../../../../src/agent/storage/lvm/decide-unmounted-shrink.ts";
import { GIB, MIB } from "../../../../../src/contracts/quantities/quantity.ts";

const FILESYSTEM = {
  fsid: "f",
  sizeBytes: 8 * GIB,
  occupiedBytes: 1 * GIB,
  reservedBytes: 0,
  blockBytes: 4096,
  isClean: true,
  mountedAtSeconds: 1000,
  mountCount: 0,
};

describe("decideGuardedShrink", () => {
  const plan = (change: Partial<UnmountedShrinkFacts> = {}) =>
    decideGuardedShrink({
      fromBytes: 8 * GIB,
      wantedBytes: 2 * GIB,
      grainBytes: 4 * MIB,
      filesystem: FILESYSTEM,
      minimumBytes: 1.2 * GIB,
      reserveBytes: 256 * MIB,
      pool: { dataBytes: 4 * GIB, metadataBytes: 64 * MIB, spareBytes: 1 * GIB },
      ...change,
    });

  it("shrinks to what is wanted, in whole grains that cover it", () => {
    expect(plan()).toMatchObject({ act: "Shrink", toBytes: 2 * GIB });
    expect(plan({ wantedBytes: 2 * GIB + 1 })).toMatchObject({ act: "Shrink", toBytes: 2 * GIB + 4 * MIB });
  });

  it("never shrinks under what is used and the reserve", () => {
    expect(plan({ wantedBytes: 1, reserveBytes: 1 * GIB })).toMatchObject({
      act: "Shrink",
      toBytes: 2 * GIB,
      leastBytes: 2 * GIB,
    });
  });

  it("counts as used what only root may write to, in its share of the smaller size", () => {
    const filesystem = { ...FILESYSTEM, reservedBytes: 2 * GIB };
    const pool = { dataBytes: 8 * GIB, metadataBytes: 64 * MIB, spareBytes: 0 };
    expect(plan({ wantedBytes: 1, reserveBytes: 2 * GIB, filesystem, pool })).toMatchObject({ toBytes: 4 * GIB });
  });

  it("asks of the pool what the smaller size has, and a little", () => {
    expect(plan()).toMatchObject({ guard: { dataBytes: 2 * GIB + 64 * MIB } });
  });

  it("never shrinks under what resize2fs calls its minimum", () => {
    expect(plan({ minimumBytes: 2.5 * GIB })).toMatchObject({ act: "Shrink", toBytes: 2.5 * GIB + 16 * MIB });
    expect(plan({ minimumBytes: Number.POSITIVE_INFINITY })).toMatchObject({ act: "FloorReached" });
  });

  it("never makes larger, whatever is larger: the volume or its filesystem", () => {
    expect(plan({ reserveBytes: 7 * GIB })).toMatchObject({ act: "FloorReached", floorBytes: 8 * GIB });
    expect(plan({ filesystem: { ...FILESYSTEM, sizeBytes: 2 * GIB } })).toMatchObject({ act: "FloorReached" });
  });

  it.each([
    ["data", { dataBytes: 3 * GIB, metadataBytes: 64 * MIB, spareBytes: 1 * GIB }, /2.*Gi.*spare of 1Gi/],
    ["data, all of it spare", { dataBytes: 1 * GIB, metadataBytes: 64 * MIB, spareBytes: 2 * GIB }, /has 0/],
    ["metadata", { dataBytes: 4 * GIB, metadataBytes: 5 * MIB, spareBytes: 0 }, /metadata, which has 5Mi/],
  ])("refuses where the pool is short of %s, with the figures", (_what, pool, message) => {
    expect(plan({ pool })).toEqual({ act: "Refuse", message: expect.stringMatching(message) });
  });
});

describe("decideFinish", () => {
  const record = (phase: UnmountedShrinkRecord["phase"]): UnmountedShrinkRecord => ({
    phase,
    snapshot: "s",
    fromBytes: 8 * GIB,
    toBytes: 2 * GIB,
    filesystemBytes: 8 * GIB,
    mountedAtSeconds: 1000,
    mountCount: 0,
  });
  const formerRecord = (phase: UnmountedShrinkRecord["phase"]): UnmountedShrinkRecord => {
    const { mountCount: _absent, ...former } = record(phase);
    return former;
  };
  const NOT_SINCE = { mountedAtSeconds: 1000, mountCount: 0 };
  const SINCE = { mountedAtSeconds: 1001, mountCount: 1 };
  const SINCE_IN_THAT_SECOND = { ...NOT_SINCE, mountCount: 1 };

  it.each<[string, Partial<InterruptionFacts>, Finish["act"]]>([
    ["nothing where nothing was begun", { tagged: false, record: undefined }, "Nothing"],
    ["doubt where the volume says that one was begun, and no record how far", { record: undefined }, "Unknown"],
    ["forget where the filesystem is untouched", { record: record("Begun") }, "Forget"],
    ["forget also where it was mounted since", { record: record("Begun"), filesystem: SINCE }, "Forget"],
    ["roll back behind the snapshot", { record: record("Guarded") }, "RollBack"],
    ["roll back what was being rolled back", { record: record("RollingBack") }, "RollBack"],
    ["roll back what was let go of for it", { record: record("RollingBack"), filesystem: "Inactive" }, "RollBack"],
    ["wait where nobody can look at it", { record: record("Guarded"), filesystem: "Inactive" }, "Wait"],
    ["end what was found to be whole", { record: record("Proven") }, "Complete"],
    ["end it also where it was mounted since", { record: record("Proven"), filesystem: SINCE }, "Complete"],
    ["doubt where it was mounted behind the snapshot", { record: record("Guarded"), filesystem: SINCE }, "Unknown"],
    [
      "doubt where it was mounted while being rolled back",
      { record: record("RollingBack"), filesystem: SINCE },
      "Unknown",
    ],
    [
      "doubt where it was mounted behind the snapshot in the same second by a clock that began anew",
      { record: record("Guarded"), filesystem: SINCE_IN_THAT_SECOND },
      "Unknown",
    ],
    [
      "doubt where it was mounted since and checked, which sets the count to 0 again",
      { record: record("Guarded"), filesystem: { ...SINCE, mountCount: 0 } },
      "Unknown",
    ],
    [
      "roll back by the time alone what a former agent has recorded",
      { record: formerRecord("Guarded"), filesystem: SINCE_IN_THAT_SECOND },
      "RollBack",
    ],
    ["doubt where no superblock tells", { record: record("Guarded"), filesystem: undefined }, "Unknown"],
    ["doubt where it is mounted behind the snapshot", { record: record("Guarded"), mounted: true }, "Unknown"],
    ["doubt where it is mounted while being rolled back", { record: record("RollingBack"), mounted: true }, "Unknown"],
    ["doubt where it is mounted before it is ended", { record: record("Proven"), mounted: true }, "Unknown"],
  ])("is: %s", (_sentence, facts, act) => {
    expect(decideFinish({ record: undefined, tagged: true, mounted: false, filesystem: NOT_SINCE, ...facts }).act).toBe(
      act,
    );
  });
});
