// The disk of a record's directory is unmounted while its process runs.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { describeReal } from "../../harness/real-parts.ts";

describeReal("a directory of records on a disk of its own", ["root"], () => {
  let directory: string;
  let disk: string;
  let path: string;
  const mount = () => execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tidemark-test", disk]);
  const unmount = () => execFileSync("umount", [disk]);

  beforeEach(() => {
    directory = mkdtempSync("/dev/shm/tidemark-disks-test-");
    disk = join(directory, "state");
    path = join(disk, "volumes/record.json");
    mkdirSync(disk);
    mount();
  });
  afterEach(() => {
    rmSync(directory, { recursive: true });
  });

  it("is not made on the disk below when its own is gone, and is made again when somebody has removed it", async () => {
    const files = createFilePort(directEffects);
    await files.writeWhole("record/write", path, "first");
    rmSync(join(disk, "volumes"), { recursive: true });
    await files.writeWhole("record/write", path, "second");
    expect(readFileSync(path, "utf8")).toBe("second");
    unmount();
    await expect(files.writeWhole("record/write", path, "third")).rejects.toMatchObject({ code: "ENODEV" });
    expect(readdirSync(disk)).toEqual([]);
    expect(existsSync(path)).toBe(false);
  });
});
