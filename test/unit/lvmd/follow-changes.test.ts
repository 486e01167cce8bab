import { describe, expect, it } from "@jest/globals";
import { parseDiskFigures } from "../../../src/lvmd/diskstats.ts";
import { hasWritten, writtenByPool } from "../../../src/lvmd/lvm/follow-changes.ts";
import { groupOf, MIB, volume } from "./lvm-facts.ts";

/** Of a kernel from 5.5 on; sectors are 512 bytes. */
const diskstats = (writtenSectors: number, discardedSectors: number): string =>
  ` 254       0 dm-0 16 0 152 0 17 0 72 40 0 10 40 0 0 0 0 0 0
 254       4 dm-4 51 0 2088 3 2 0 ${writtenSectors} 40 0 77 40 5 0 ${discardedSectors} 0 0 0
   7       0 loop0 1 2 3
`;

describe("figures of devices", () => {
  it("are in bytes, whatever the device's sectors are", () => {
    expect(parseDiskFigures(diskstats(16, 8)).get("254:4")).toEqual({
      reads: 51,
      readBytes: 2088 * 512,
      writes: 2,
      writtenBytes: 16 * 512,
      busyMs: 77,
      discardedBytes: 8 * 512,
    });
    expect(parseDiskFigures(diskstats(0, 0)).has("7:0")).toBe(false);
  });
});

describe("a thin pool", () => {
  const group = groupOf(
    [],
    [
      volume({ name: "pool", attr: "twi-aotz--", sizeBytes: 100 * MIB }),
      volume({ name: "thin", pool: "pool", device: { major: 254, minor: 4 } }),
      volume({ name: "thick", device: { major: 254, minor: 0 } }),
    ],
  );
  const report = new Map([["g", group]]);
  const written = (writtenSectors: number, discardedSectors: number) =>
    writtenByPool(report, parseDiskFigures(diskstats(writtenSectors, discardedSectors)));

  it.each([
    ["nothing was written", 0, 0, 0, false],
    ["a sector was written, at the slow look", 1, 0, 0, true],
    ["a sector was discarded, at the slow look", 0, 1, 0, true],
    ["a sector was written, at a quick look", 1, 0, 0.01, false],
    ["more than a hundredth was written", 2049, 0, 0.01, true],
  ])("is looked at again or not where %s", (_case, writtenSectors, discardedSectors, ratio, expected) => {
    expect(hasWritten(report, written(0, 0), written(writtenSectors, discardedSectors), ratio)).toBe(expected);
  });
});
