import { describe, expect, it } from "@jest/globals";
import {
  hasOurFilters,
  metExclusive,
  metSwapfile,
} from "../../../../../src/agent/storage/btrfs/exclusive-operation.ts";

/** As btrfs-progs 6.2 says it. */
const status = (...filters: string[]): string =>
  ["Balance on '/m' is running", "0 out of about 3 chunks balanced (1 considered), 100% left"]
    .concat("Dumping filters: flags 0x1, state 0x1, force is off", ...filters.map((filter) => `  ${filter}`))
    .join("\n");

describe("a balance", () => {
  it.each([0, 25, 50])("may be one that a shrink began: usage=%d of data alone", (percent) => {
    expect(hasOurFilters(status(`DATA (flags 0x2): balancing, usage=${percent}`))).toBe(true);
  });

  it.each([
    ["a usage that no shrink asks for", ["DATA (flags 0x2): balancing, usage=100"]],
    ["a further filter", ["DATA (flags 0x2): balancing, usage=50, limit=1"]],
    ["a conversion", ["DATA (flags 0x100): converting, target=32, soft is off"]],
    ["metadata beside", ["DATA (flags 0x2): balancing, usage=50", "METADATA (flags 0x2): balancing, usage=50"]],
    ["no filter", ["DATA (flags 0x0): balancing", "METADATA (flags 0x0): balancing", "SYSTEM (flags 0x0): balancing"]],
  ])("is somebody else's with %s", (_what, filters) => {
    expect(hasOurFilters(status(...filters))).toBe(false);
  });
});

it.each([
  ["ERROR: unable to start resize, another exclusive operation 'balance' in progress", true],
  ["ERROR: unable to start resize, another exclusive operation 'balance paused' in progress", true],
  ["ERROR: unable to resize '/m': add/delete/balance/replace/resize operation in progress", true],
  ["ERROR: unable to resize '/m': No space left on device", false],
  ["ERROR: resizing of '/m' failed: Operation canceled", false],
])("a command that says %j has met somebody else's operation: %s", (said, expected) => {
  expect(metExclusive(said)).toBe(expected);
});

it("a command that ends with ETXTBSY has met a swapfile", () => {
  expect(metSwapfile("ERROR: unable to resize '/m': Text file busy")).toBe(true);
  expect(metSwapfile("ERROR: unable to resize '/m': No space left on device")).toBe(false);
});
