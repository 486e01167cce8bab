import { describe, expect, it } from "@jest/globals";
import { type ChartInput, drawChart } from "../../../../demo/show/picture/chart.ts";
import { byteTicks, secondTicks } from "../../../../demo/show/picture/chart-scale.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { spacePoint } from "../../../builders/run-log.ts";

const INPUT: ChartInput = {
  points: [spacePoint(0, 1024, 256), spacePoint(5000, 2048, 512)],
  spanMs: 10_000,
  maxBytes: 4 * GIB,
  fixedSizeBytes: 3 * GIB,
  fixedFullAtMs: undefined,
  columns: 4,
  rows: 4,
};

function drawn(input: ChartInput): string[] {
  return drawChart(input).map((row) => row.map(({ text }) => text).join(""));
}

describe("the chart", () => {
  it("has exactly its rows and columns", () => {
    const rows = drawn(INPUT);
    expect(rows).toHaveLength(4);
    expect(rows.every((row) => row.length === 4)).toBe(true);
  });

  it("draws use as blocks under size as a line, in the columns of their time", () => {
    expect(drawn({ ...INPUT, fixedSizeBytes: 0 })).toEqual(["    ", "  ▁ ", "▁   ", "▂┄▄┄"]);
  });

  it("ends the unmanaged filesystem's line where it was full", () => {
    expect(drawn({ ...INPUT, fixedFullAtMs: 5000 })[0]).toBe("┄┄✕ ");
  });

  it("keeps a size over the scale on its topmost row", () => {
    expect(drawn({ ...INPUT, points: [spacePoint(0, 9000, 0)] })[0]?.[0]).toBe("▔");
  });
});

describe("ticks", () => {
  it("are round, and reach over the largest size", () => {
    expect(byteTicks(2.3 * GIB, 4)).toEqual([0, GIB, 2 * GIB, 3 * GIB]);
    expect(byteTicks(300 * MIB, 4)).toEqual([0, 128 * MIB, 256 * MIB, 384 * MIB]);
  });

  it("of time lie within the span", () => {
    expect(secondTicks(66_000, 7)).toEqual([0, 10, 20, 30, 40, 50, 60]);
  });
});
