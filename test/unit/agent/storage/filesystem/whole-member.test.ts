import { expect, it } from "@jest/globals";
import { assertWholeMember } from "../../../../../src/agent/storage/filesystem/superblocks.ts";

// Of this process' own memory no page is mapped where it begins: the kernel answers EIO.
it.each(["btrfs", "ext4", "xfs"] as const)("a member of %s that cannot be read is not said to be cut", (fsType) => {
  const member = { handle: "fs-a", name: "m0", sizeBytes: 1, deviceBytes: 2 };
  assertWholeMember({ ...member, fsType, path: "/proc/self/mem" });
  assertWholeMember({ ...member, fsType, path: "/no/such/member" });
  expect(() => assertWholeMember({ ...member, fsType, path: "/dev/zero" })).toThrow("Bring back what was cut off");
});
