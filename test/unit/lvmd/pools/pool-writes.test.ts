import { describe, expect, it } from "@jest/globals";
import { parseDiskFigures } from "../../../../src/lvmd/devices.ts";
import type { Report } from "../../../../src/lvmd/lvm/report.ts";
import { createPoolWrites, type Look, lookAtPools } from "../../../../src/lvmd/pools/thin-pools.ts";
import { groupOf, MIB, volume } from "../lvm-facts.ts";

const KIB = 1024;

interface Counted {
  readonly minor?: number;
  readonly writes?: number;
  readonly written?: number;
  readonly discarded?: number;
}

/** Of a kernel from 5.5 on; sectors are 512 bytes, whatever the device's own are. */
function diskstats(...devices: readonly Counted[]): string {
  const lines = devices.map(
    ({ minor = 4, writes = 0, written = 0, discarded = 0 }) =>
      ` 254       ${minor} dm-${minor} 51 0 2088 3 ${writes} 0 ${written / 512} 40 0 77 40 5 0 ${discarded / 512} 0 0 0\n`,
  );
  return `${lines.join("")}   7       0 loop0 1 2 3\n`;
}

describe("figures of devices", () => {
  it("are in bytes, and those of a line that is too short are left out", () => {
    const figures = parseDiskFigures(diskstats({ writes: 2, written: 16 * 512, discarded: 8 * 512 }));
    expect(figures.get("254:4")).toEqual({
      reads: 51,
      readBytes: 2088 * 512,
      writes: 2,
      writtenBytes: 16 * 512,
      busyMs: 77,
      discardedBytes: 8 * 512,
    });
    expect(figures.has("7:0")).toBe(false);
  });
});

/** A pool of 1000 MiB in chunks of 64 KiB, with two volumes; and a thick volume beside them. */
function reportOf(dataPercent: number, metadataPercent = 0): Report {
  const pool = volume({
    name: "pool",
    attr: "twi-aotz--",
    sizeBytes: 1000 * MIB,
    dataPercent,
    metadataPercent,
    metadataSizeBytes: 4 * MIB,
    chunkBytes: 64 * KIB,
  });
  const volumes = [
    pool,
    volume({ name: "thin", pool: "pool", device: { major: 254, minor: 4 } }),
    volume({ name: "other", pool: "pool", device: { major: 254, minor: 5 } }),
    volume({ name: "thick", device: { major: 254, minor: 9 } }),
    volume({ name: "off", pool: "pool", device: undefined }),
  ];
  return new Map([["g", groupOf([], volumes)]]);
}

const look = (report: Report, atMs: number, ...counted: readonly Counted[]): Look =>
  lookAtPools(report, parseDiskFigures(diskstats(...counted)), atMs);

/** Asked of a pool of which nothing had been written for long. */
function askedAtRest(report: Report, ...counted: readonly Counted[]) {
  const writes = createPoolWrites();
  writes.isDue(report, look(report, 0, ...counted), false);
  writes.asked(look(report, 10_000, ...counted));
  return writes;
}

describe("a thin pool is due for a new report", () => {
  it.each([
    ["not where nothing was written", 0, {}, false, false],
    ["where a hundredth was written", 0, { writes: 1, written: 10 * MIB }, false, true],
    ["not where less was", 0, { writes: 1, written: 9 * MIB }, false, false],
    [
      "where small writes may have taken a chunk each, a hundredth in all",
      0,
      { writes: 160, written: 160 * 512 },
      false,
      true,
    ],
    ["not where fewer small writes may have", 0, { writes: 150, written: 150 * 512 }, false, false],
    ["where a hundredth was given back", 0, { discarded: 10 * MIB }, false, true],
    ["where a sixteenth of what is free may be taken", 96, { writes: 1, written: 3 * MIB }, false, true],
    ["not where it is full and little is written", 100, { writes: 1, written: 512 }, false, false],
    ["where it is full and a thousandth is written", 100, { writes: 1, written: MIB }, false, true],
    ["at the slow look where anything was written", 0, { writes: 1, written: 512 }, true, true],
    ["at the slow look not where nothing was", 0, {}, true, false],
    ["not by what a thick volume writes", 0, { minor: 9, writes: 1000, written: 100 * MIB }, true, false],
  ])("%s", (_case, dataPercent, counted: Counted, everything, due) => {
    const report = reportOf(dataPercent);
    const first = { minor: counted.minor ?? 4 };
    const writes = askedAtRest(report, first);
    expect(writes.isDue(report, look(report, 10_500, counted), everything)).toBe(due);
  });

  it("where its metadata may fill before its data do", () => {
    const counted = { writes: 20, written: 20 * 512 };
    const due = (metadataPercent: number): boolean => {
      const report = reportOf(0, metadataPercent);
      return askedAtRest(report, {}).isDue(report, look(report, 10_500, counted), false);
    };
    expect([due(50), due(100)]).toEqual([false, false]);
    const many = { writes: 100, written: 100 * 512 };
    const full = reportOf(0, 99.9);
    expect(askedAtRest(full, {}).isDue(full, look(full, 10_500, many), false)).toBe(true);
  });

  it("once more where it was written right before LVM was asked, and then no more", () => {
    const report = reportOf(0);
    const writes = createPoolWrites();
    const [before, after] = [
      { writes: 1, written: MIB },
      { writes: 9, written: 500 * MIB },
    ];
    writes.asked(look(report, 0, before));
    writes.asked(look(report, 7000, before));
    writes.isDue(report, look(report, 10_000, before), false);
    expect(writes.isDue(report, look(report, 10_500, after), false)).toBe(true);
    writes.asked(look(report, 10_600, after));
    expect(writes.isDue(report, look(report, 11_000, after), false)).toBe(false); // LVM may not know more yet
    expect(writes.isDue(report, look(report, 12_600, after), false)).toBe(true);
    writes.asked(look(report, 12_700, after));
    expect(writes.isDue(report, look(report, 14_800, after), true)).toBe(false);
  });

  it("at once, within those seconds, where as much again is written", () => {
    const report = reportOf(0);
    const writes = askedAtRest(report, {});
    expect(writes.isDue(report, look(report, 10_200, { writes: 1, written: 20 * MIB }), false)).toBe(true);
  });

  it("soon after the start, where its volumes were ever written: what came before is not known", () => {
    const report = reportOf(0);
    const writes = createPoolWrites();
    const counted = { writes: 9, written: 500 * MIB };
    writes.asked(look(report, 0, counted));
    expect(writes.isDue(report, look(report, 500, counted), false)).toBe(false);
    expect(writes.isDue(report, look(report, 2000, counted), false)).toBe(true);
  });

  it("by a volume that is new, or whose number another one has now, and not by one that is gone", () => {
    const report = reportOf(0);
    const [old, young] = [
      { minor: 4, writes: 9, written: 500 * MIB },
      { minor: 4, writes: 1, written: 20 * MIB },
    ];
    expect(askedAtRest(report, old).isDue(report, look(report, 10_500, young), false)).toBe(true);
    expect(askedAtRest(report, old).isDue(report, look(report, 10_500, old, { ...young, minor: 5 }), false)).toBe(true);
    expect(askedAtRest(report, old).isDue(report, look(report, 10_500), true)).toBe(false);
  });
});
