import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { type KnownFilesystem, readFilesystemEnd } from "../../../../../src/lvmd/volumes/reduce/read-signature.ts";
import { checksummed } from "../../../../fuzz/superblocks.ts";
import { GIB, MIB } from "../../lvm-facts.ts";

const COPY = 64 * MIB;
const END_PLACE = 0xc9 + 8;

describe("where a filesystem ends", () => {
  let directory: string;
  let image: string;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "filesystem-end-"));
    image = join(directory, "image");
  });

  afterAll(() => rmSync(directory, { recursive: true }));

  function format(program: string, ...args: string[]): void {
    rmSync(image, { force: true });
    writeFileSync(image, "");
    truncateSync(image, 2 * GIB);
    execFileSync(
      program,
      args.map((arg) => (arg === "IMAGE" ? image : arg)),
      {
        stdio: "ignore",
        env: { PATH: `${process.env["PATH"]}:/usr/sbin:/sbin` },
      },
    );
  }

  async function end(type: KnownFilesystem, reachBytes = 2 * GIB): Promise<number> {
    const file = await open(image, "r");
    try {
      return await readFilesystemEnd(file, type, reachBytes);
    } finally {
      await file.close();
    }
  }

  async function change(work: (file: FileHandle) => Promise<unknown>): Promise<void> {
    const file = await open(image, "r+");
    await work(file).finally(() => file.close());
  }

  /** With the checksum that belongs to it. */
  const edit = (copy: number, work: (block: Buffer) => unknown): Promise<void> =>
    change(async (file) => {
      const { buffer } = await file.read(Buffer.alloc(4096), 0, 4096, copy);
      work(buffer);
      await file.write(checksummed("btrfs", buffer), 0, 4096, copy);
    });
  const writeEnd = (copy: number, bytes: number): Promise<void> =>
    edit(copy, (block) => block.writeBigUInt64LE(BigInt(bytes), END_PLACE));

  it.each([
    ["btrfs", "mkfs.btrfs", ["-q", "-b", "500M", "IMAGE"]],
    ["ext4", "mkfs.ext4", ["-q", "IMAGE", "500M"]],
    ["ext4", "mkfs.ext4", ["-q", "-O", "^64bit,^metadata_csum", "-b", "1024", "IMAGE", "500M"]],
    ["xfs", "mkfs.xfs", ["-q", "-f", "-d", "size=500m", "IMAGE"]],
  ] as const)("is read from %s's own superblock", async (type, program, args) => {
    format(program, ...args);
    expect(await end(type)).toBe(500 * MIB);
  });

  it("on btrfs is the farthest of all copies that are left after the cut", async () => {
    format("mkfs.btrfs", "-q", "-b", "500M", "IMAGE");
    await writeEnd(COPY, 700 * MIB);
    expect(await end("btrfs")).toBe(700 * MIB);
    expect(await end("btrfs", COPY)).toBe(500 * MIB);
  });

  it("is not believed where copies belong to different filesystems, or to another place", async () => {
    format("mkfs.btrfs", "-q", "-b", "500M", "IMAGE");
    await edit(COPY, (block) => block.fill(7, 0x20, 0x30));
    await expect(end("btrfs")).rejects.toThrow("different filesystems");
    await edit(65_536, (block) => block.fill(7, 0x30, 0x38));
    await expect(end("btrfs")).rejects.toThrow("another place");
  });

  it.each([
    ["btrfs", "mkfs.btrfs", "-q"],
    ["ext4", "mkfs.ext4", "-q"],
    ["xfs", "mkfs.xfs", "-q"],
  ] as const)("is not believed where the checksum of %s's superblock is wrong", async (type, program, quiet) => {
    format(program, quiet, "IMAGE");
    // The name of the filesystem, or a part of its metadata's UUID.
    const place = { btrfs: 65_536 + 0x12b, ext4: 1024 + 0x78, xfs: 108 }[type];
    await change((file) => file.write(Buffer.from("x"), 0, 1, place));
    await expect(end(type)).rejects.toThrow("checksum");
  });

  it.each(["btrfs", "ext4", "xfs"] as const)("is not made up where there is no %s", async (type) => {
    format("true");
    await expect(end(type)).rejects.toThrow("no");
    truncateSync(image, 100);
    await expect(end(type)).rejects.toThrow();
  });

  it("is not believed where it is not a number of bytes", async () => {
    format("mkfs.btrfs", "-q", "-b", "500M", "IMAGE");
    await writeEnd(65_536, 2 ** 62);
    await expect(end("btrfs")).rejects.toThrow("says that it is");
  });
});
