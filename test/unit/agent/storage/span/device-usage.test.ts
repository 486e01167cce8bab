import { describe, expect, it } from "@jest/globals";
import { parseDeviceUsage } from "../../../../../src/agent/storage/span/device-identity.ts";

// As btrfs-progs 6.2 prints it with --raw, of a device that has just become larger and of one that is new.
const TOLD = `/dev/loop1, ID: 1
   Device size:          2147483648
   Device slack:         1073741824
   Data,single:             8388608
   Metadata,DUP:          107347968
   System,DUP:             16777216
   Unallocated:           941228032

/dev/mapper/pool-m1, ID: 12
   Device size:          1073741824
   Device slack:                  0
   Unallocated:          1073741824

`;

describe("what btrfs says of its devices", () => {
  it("is read device by device; what it does not use of one is no part of the filesystem", () => {
    expect(parseDeviceUsage(TOLD)).toEqual([
      { path: "/dev/loop1", devid: 1, sizeBytes: 2 ** 30, unallocatedBytes: 941228032 },
      { path: "/dev/mapper/pool-m1", devid: 12, sizeBytes: 2 ** 30, unallocatedBytes: 2 ** 30 },
    ]);
  });

  it("is no device where a figure is missing: what is not known is never 0", () => {
    expect(parseDeviceUsage(TOLD.replace(/Unallocated: +941228032/, ""))).toMatchObject([{ devid: 12 }]);
    expect(parseDeviceUsage("missing, ID: 3\n   Device size: 0\n")).toEqual([]);
  });
});
