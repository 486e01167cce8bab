import { describe, expect, it } from "@jest/globals";
import { columnsOf, promisableBytes, thickRoomBytes, thinRoomBytes } from "../../../../src/lvmd/classes/class-state.ts";
import { deviceClass, EXTENT, GIB, groupOf, MIB, volume } from "../lvm-facts.ts";

describe("the columns of a volume", () => {
  it.each([
    [[], undefined, { all: 1, data: 1, apart: false }],
    [[], 3, { all: 3, data: 3, apart: false }],
    [["-i", "2"], undefined, { all: 2, data: 2, apart: false }],
    [["--stripes=4"], undefined, { all: 4, data: 4, apart: false }],
    [["-m1"], undefined, { all: 2, data: 1, apart: true }],
    [["-m", "0"], undefined, { all: 1, data: 1, apart: false }],
    [["--type", "raid1"], undefined, { all: 2, data: 1, apart: true }],
    [["--type=raid1", "--mirrors", "2"], undefined, { all: 3, data: 1, apart: true }],
    [["--type", "mirror", "-m", "1"], undefined, { all: 2, data: 1, apart: true }],
    [["--mirrors=1"], 2, { all: 4, data: 2, apart: true }],
    [["--type", "raid10"], undefined, { all: 4, data: 2, apart: true }],
    [["--type", "raid5", "-i", "3"], undefined, { all: 4, data: 3, apart: true }],
    [["--type=raid5_ls"], undefined, { all: 3, data: 2, apart: true }],
    [["--type", "raid6", "-i", "4"], undefined, { all: 6, data: 4, apart: true }],
    [["--type", "raid0"], undefined, { all: 2, data: 2, apart: true }],
    [["--type", "linear"], undefined, { all: 1, data: 1, apart: false }],
  ])("by %j and stripe %j are told", (lvcreateOptions, stripe, columns) => {
    expect(columnsOf(deviceClass({ lvcreateOptions, stripe }), undefined)).toEqual(columns);
  });

  it("by an option class are its own, whatever the class says", () => {
    const mirrored = deviceClass({ lvcreateOptions: ["-m1"], stripe: 2 });
    expect(columnsOf(mirrored, ["-i", "3"])).toEqual({ all: 3, data: 3, apart: false });
    expect(columnsOf(mirrored, [])).toEqual({ all: 1, data: 1, apart: false });
  });
});

describe("the room for one more thick volume", () => {
  const room = (freeBytes: readonly number[], options: readonly string[], spareBytes = 0): number =>
    thickRoomBytes(groupOf(freeBytes), spareBytes, columnsOf(deviceClass({ lvcreateOptions: options }), undefined));

  it.each([
    ["is the group's, wherever it is", [GIB, GIB, 8 * MIB], [], 0, 2 * GIB + 8 * MIB],
    ["leaves the spare", [GIB, GIB], [], GIB + 1, GIB - EXTENT],
    ["is nothing where there is less than the spare", [GIB], [], 2 * GIB, 0],
    ["of a mirror is what two devices both have, less its metadata", [3 * GIB, GIB], ["-m1"], 0, GIB - EXTENT],
    ["of a mirror is nothing on one device", [3 * GIB], ["-m1"], 0, 0],
    ["of a mirror takes a spare from both halves", [4 * GIB, 4 * GIB], ["-m1"], 2 * GIB, 3 * GIB],
    ["of RAID 5 is that of its data", [GIB, GIB, GIB], ["--type=raid5"], 0, 2 * (GIB - EXTENT)],
    ["of stripes goes on where two devices are left", [3 * GIB, 2 * GIB, GIB], ["-i2"], 0, 6 * GIB],
    ["of stripes ends where one device is left", [3 * GIB, GIB], ["-i2"], 0, 2 * GIB],
  ])("%s", (_case, freeBytes, options, spareBytes, expected) => {
    expect(room(freeBytes, options, spareBytes)).toBe(expected);
  });
});

describe("the room for one more thin volume", () => {
  const pool = volume({ name: "pool", attr: "twi-aotz--", sizeBytes: 10 * GIB, dataPercent: 40 });
  const settings = { name: "pool", overprovisionRatio: 2 };
  const group = groupOf(
    [GIB],
    [pool, volume({ name: "a", pool: "pool", sizeBytes: 3 * GIB }), volume({ name: "thick" })],
  );

  it.each([
    ["is what may still be promised", 0, 40, 17 * GIB],
    ["leaves the spare", 2 * GIB, 40, 15 * GIB],
    ["is nothing where less than the spare can still be written", 2 * GIB, 81, 0],
    ["is nothing where more was promised than may be", 18 * GIB, 0, 0],
    ["is nothing where nobody can tell what the pool has left", 0, Number.NaN, 0],
  ])("%s", (_case, spareBytes, dataPercent, expected) => {
    expect(thinRoomBytes(group, { ...pool, dataPercent }, settings, spareBytes)).toBe(expected);
  });

  it("is not less for a snapshot that guards a shrink: others must be able to grow meanwhile", () => {
    const volumes = [volume({ name: "shrinks", pool: "pool", sizeBytes: 2 * GIB })];
    const guard = volume({
      name: "guard",
      pool: "pool",
      sizeBytes: 2 * GIB,
      tags: ["a", "tidemark.dev/guards=shrinks"],
    });
    const room = (...more: (typeof guard)[]): number =>
      promisableBytes(groupOf([GIB], [...volumes, ...more]), pool, settings);
    expect(room(guard)).toBe(room());
    expect(room({ ...guard, tags: ["a"] })).toBe(room() - 2 * GIB);
    expect(room({ ...guard, tags: ["tidemark.dev/guards=guard"] })).toBe(room() - 2 * GIB);
  });
});
