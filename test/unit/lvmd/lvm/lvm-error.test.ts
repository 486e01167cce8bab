import { describe, expect, it } from "@jest/globals";
import { failureOf, LvmError, refusalOfLvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";

describe("what LVM says", () => {
  it.each([
    ['  Volume group "a" has insufficient free space (899 extents): 25600 required.', 5, "RESOURCE_EXHAUSTED"],
    ["  Insufficient suitable allocatable extents for logical volume r1: 22 more required", 5, "RESOURCE_EXHAUSTED"],
    ["  Free space in pool a/pool is above threshold, new volumes are not allowed.", 5, "RESOURCE_EXHAUSTED"],
    ['  Volume group "none" not found\n  Cannot process volume group none', 5, "NOT_FOUND"],
    ['  Failed to find logical volume "a/none"', 5, "NOT_FOUND"],
    ['  Logical Volume "lin" already exists in volume group "a"', 5, "ALREADY_EXISTS"],
    ["  Logical volume a/x contains a filesystem in use.", 5, "FAILED_PRECONDITION"],
    ["  Logical volume a/x in use.", 5, "FAILED_PRECONDITION"],
    ["  Volume group a is read-only.\n  Cannot process volume group a", 5, "FAILED_PRECONDITION"],
    ["  Failed to write metadata to /dev/loop0.\n  Failed to write VG a.", 5, "FAILED_PRECONDITION"],
    [
      "  WARNING: Couldn't find device with uuid 61lyOA.\n  Cannot change VG a while PVs are missing.\n",
      5,
      "FAILED_PRECONDITION",
    ],
    ["  Giving up waiting for lock.\n  Can't get lock for a.\n  Cannot process volume group a", 5, "UNAVAILABLE"],
    ['  Logical volume name "a b" is invalid.', 3, "INVALID_ARGUMENT"],
    ["  Something else", 5, "INTERNAL"],
  ])("as %j becomes a code", (stderr, exitCode, code) => {
    expect(refusalOfLvmError(new LvmError(failureOf(exitCode, stderr), stderr))?.code).toBe(code);
  });
});
