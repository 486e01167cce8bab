import { describe, expect, it } from "@jest/globals";
import { parseMounts } from "../../../src/agent/storage/mount-table.ts";

const MOUNTINFO = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
43 22 0:39 / /var/lib/with\\040space rw,noatime shared:7 master:2 - btrfs /dev/loop0 rw,ssd,subvolid=5
44 22 0:40 / /mnt/aborted rw,noatime - btrfs /dev/loop1 ro,ssd
45 22 0:41 / /mnt/bind-ro ro,noatime - btrfs /dev/loop2 rw,ssd
46 22 0:41 /sub\\040path /mnt/part rw,noatime - btrfs /dev/loop2 rw,ssd
`;

describe("parseMounts", () => {
  it("reads path, root, type, source and whether the filesystem itself is read-only, whatever optional fields there are", () => {
    expect(parseMounts(MOUNTINFO)).toEqual([
      { mountPath: "/", root: "/", fsType: "ext4", source: "/dev/vda", readOnly: false },
      { mountPath: "/var/lib/with space", root: "/", fsType: "btrfs", source: "/dev/loop0", readOnly: false },
      { mountPath: "/mnt/aborted", root: "/", fsType: "btrfs", source: "/dev/loop1", readOnly: true },
      { mountPath: "/mnt/bind-ro", root: "/", fsType: "btrfs", source: "/dev/loop2", readOnly: false },
      { mountPath: "/mnt/part", root: "/sub path", fsType: "btrfs", source: "/dev/loop2", readOnly: false },
    ]);
  });
});
