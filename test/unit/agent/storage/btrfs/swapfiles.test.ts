import { expect, it } from "@jest/globals";
import { swapfilePaths, swapfilesOn } from "../../../../../src/agent/storage/btrfs/immovable-data.ts";
import { parseMounts } from "../../../../../src/agent/storage/filesystem/devices-and-mounts.ts";

const SWAPS = `Filename				Type		Size		Used		Priority
/dev/sda2                               partition	307196		0		-1
/pods/a/mount/swap\\040file               file		307196		892		-2
/pods/a/mount/disk/swap                 file		307196		0		-3
/pods/ab/swap                           file		307196		0		-4
`;
const MOUNTS = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /pods/a/mount rw - btrfs /dev/loop3 rw
31 30 0:41 / /pods/a/mount/disk rw - btrfs /dev/loop7 rw
`;

it.each([
  [["loop2", "loop3"], ["/pods/a/mount/swap file"]],
  [["loop7"], ["/pods/a/mount/disk/swap"]],
  [["loop9"], []],
  [["vda"], []],
])("of the node's swapfiles those are on a btrfs of %j whose nearest mount it is: %j", (deviceNames, expected) => {
  expect(swapfilesOn(swapfilePaths(SWAPS), parseMounts(MOUNTS), deviceNames)).toEqual(expected);
});
