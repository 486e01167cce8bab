import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  createTopmostMounts,
  kernelPathOf,
  mountAt,
  mountsOf,
  parseMounts,
} from "../../../../../src/agent/storage/filesystem/devices-and-mounts.ts";

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

describe("a table that was read once", () => {
  let directory = "";
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-mounts-"));
    mkdirSync(join(directory, "with space"));
    symlinkSync(directory, join(directory, "link"));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const table = (): string[] => [
    `40 22 0:41 / ${directory}/vol rw - btrfs /dev/loop1 rw`,
    `41 22 0:42 / ${directory}/vol/below rw - btrfs /dev/loop2 rw`,
    `42 22 0:43 / ${directory}/vol rw - btrfs /dev/loop12 rw`,
    `43 22 0:44 / ${directory}/with\\040space/vol rw - btrfs /dev/disk\\040one rw`,
    "",
  ];

  it.each([
    ["the topmost of several", (): string => join(directory, "vol"), "/dev/loop12"],
    ["one by a path whose directory is a link", (): string => join(directory, "link/vol"), "/dev/loop12"],
    [
      "one whose path the kernel writes in another way",
      (): string => join(directory, "with space/vol"),
      "/dev/disk one",
    ],
  ])("tells %s", (_what, path, source) => {
    expect(mountAt(path(), table())?.source).toBe(source);
  });

  it("tells no mount whose path only begins alike", () => {
    expect(mountAt(join(directory, "vo"), table())).toBeUndefined();
  });

  it("tells the mounts of a source, and none of a source that only begins alike", () => {
    expect(mountsOf("/dev/loop1", table()).map(({ mountPath }) => mountPath)).toEqual([join(directory, "vol")]);
    expect(mountsOf("/dev/disk one", table())).toHaveLength(1);
  });
});

it("those who ask often get for each path what is asked for by one path alone", () => {
  const topmost = createTopmostMounts();
  const mounts = topmost();
  expect([...mounts.keys()]).toContain("/proc");
  for (const path of ["/", "/proc"]) expect(mounts.get(kernelPathOf(path) ?? "")).toEqual(mountAt(path));
  expect(topmost()).toBe(mounts);
});
