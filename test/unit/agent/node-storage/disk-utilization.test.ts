import { expect, it } from "@jest/globals";
import { busiest } from "../../../../src/agent/node-storage/node-storage-reporter.ts";

it.each<[string, Record<string, number>, Record<string, number>, number | undefined]>([
  ["of the busiest disk", { sda: 0, sdb: 100 }, { sda: 15_000, sdb: 45_100 }, 0.75],
  ["never more than all of the time", { sda: 0 }, { sda: 90_000 }, 1],
  ["nothing of a counter that began anew", { sda: 5000 }, { sda: 10 }, 0],
  ["not told of a disk that was not there before", {}, { sda: 60_000 }, undefined],
  ["not told where there is none", { sda: 0 }, {}, undefined],
])("the utilization of a minute is %s", (_what, before, after, expected) => {
  expect(busiest(new Map(Object.entries(before)), new Map(Object.entries(after)), 60_000)).toBe(expected);
});
