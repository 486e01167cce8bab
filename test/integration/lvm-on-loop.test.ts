// The ground under the backend `lvm` where there is no device-mapper: real LVM commands, and a filesystem that lives through all of
// them on the loop device that stands for its volume.
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { loopDevicesUnder, mountsUnder } from "../../demo/show/run/mount-table.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { describeReal } from "../harness/real-parts.ts";
import { waitFor } from "../harness/wait-for.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";

const FIELDS = "lv_name,lv_path,lv_size,lv_attr,lv_kernel_major,lv_kernel_minor,lv_tags";

describeReal("LVM on loop devices", ["root", "loop", "btrfs", "lvm"], () => {
  let directory: string;
  let group: string;
  let ground: LvmOnLoop;
  const run = (command: string, ...args: readonly string[]): string =>
    execFileSync(command, args, { encoding: "utf8", stdio: "pipe" });
  const deviceOf = (name: string): string => readlinkSync(`/dev/${group}/${name}`);
  const bytesOf = (name: string): number => Number(run("blockdev", "--getsize64", `/dev/${group}/${name}`));
  const sum = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex");
  const create = (name: string, size: string): Promise<string> =>
    ground.lvm("lvm", "lvcreate", "--yes", "--wipesignatures", "y", "--name", name, "--size", size, group);
  const report = async (): Promise<Record<string, string>[]> => {
    const told = await ground.lvm("lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", FIELDS);
    return (JSON.parse(told) as { report: [{ lv: Record<string, string>[] }] }).report[0].lv;
  };
  const mountPath = (): string => join(directory, "mounts/volume");
  const mountVolume = (name: string): void => {
    run("mkfs.btrfs", "--quiet", `/dev/${group}/${name}`);
    mkdirSync(mountPath(), { recursive: true });
    run("mount", `/dev/${group}/${name}`, mountPath());
  };
  const capacityBytes = (): number => {
    const { blocks, bsize } = statfsSync(mountPath());
    return blocks * bsize;
  };

  beforeEach(async () => {
    directory = mkdtempSync("/dev/shm/tidemark-lvm-on-loop-");
    group = `tidemark-${directory.slice(-6)}`;
    ground = await createLvmOnLoop(join(directory, "lvm"));
    await ground.addGroup(group, 16 * GIB);
  });

  afterEach(async () => {
    for (const path of mountsUnder(directory)) run("umount", path);
    await ground.remove();
    rmSync(directory, { recursive: true, force: true });
    await waitFor("its devices to be detached", () => (loopDevicesUnder(directory).length === 0 ? true : undefined));
    expect(existsSync(`/dev/${group}`)).toBe(false);
  });

  it("keeps a filesystem whole while its volume grows and shrinks under it, beside another one", async () => {
    await create("one", "1g");
    await create("two", "1g");
    mountVolume("one");
    const file = join(mountPath(), "file");
    writeFileSync(file, randomBytes(200 * MIB));
    const before = sum(file);

    await ground.lvm("lvextend", "--yes", "--size", "3g", `${group}/one`);
    expect(bytesOf("one")).toBe(3 * GIB);
    run("btrfs", "filesystem", "resize", "max", mountPath());
    expect(capacityBytes()).toBe(3 * GIB);

    run("btrfs", "filesystem", "resize", "2g", mountPath());
    await ground.lvm("lvreduce", "--force", "--yes", "--size", "2g", `${group}/one`);
    expect(bytesOf("one")).toBe(2 * GIB);
    expect(capacityBytes()).toBe(2 * GIB);
    expect(bytesOf("two")).toBe(GIB);

    run("umount", mountPath());
    run("btrfs", "check", "--readonly", `/dev/${group}/one`);
    run("mount", `/dev/${group}/one`, mountPath());
    expect(sum(file)).toBe(before);
  });

  it("tells the loop devices in LVM's own report", async () => {
    await create("one", "1g");
    await ground.lvm("lvchange", "--addtag", "tidemark.dev/claim=shop/cart", `${group}/one`);
    const [major, minor] = readFileSync(`/sys/block/${deviceOf("one").replace("/dev/", "")}/dev`, "utf8")
      .trim()
      .split(":");
    const told = {
      lv_name: "one",
      lv_path: `/dev/${group}/one`,
      lv_size: `${GIB}`,
      lv_kernel_major: major,
      lv_kernel_minor: minor,
      lv_tags: "tidemark.dev/claim=shop/cart",
    };
    expect(await report()).toEqual([{ ...told, lv_attr: "-wi-a-----" }]);
    mountVolume("one");
    expect(await report()).toEqual([{ ...told, lv_attr: "-wi-ao----" }]);
  });

  it("passes on LVM's refusals, and refuses to remove a volume that is mounted", async () => {
    await create("one", "1g");
    mountVolume("one");
    await expect(create("large", "20g")).rejects.toThrow("insufficient free space");
    await expect(ground.lvm("lvremove", "--force", `${group}/one`)).rejects.toThrow(
      `Logical volume ${group}/one is used by another device`,
    );
    expect((await report()).map(({ lv_name }) => lv_name)).toEqual(["one"]);
    run("umount", mountPath());
    await ground.lvm("lvremove", "--force", `${group}/one`);
    expect(await report()).toEqual([]);
    expect(existsSync(`/dev/${group}/one`)).toBe(false);
    // The kernel closes a filesystem's device a little later than umount ends.
    await waitFor("its device to be detached", () =>
      loopDevicesUnder(join(ground.directory, "volumes")).length === 0 ? true : undefined,
    );
  });

  it("never shows what a removed volume held", async () => {
    await create("one", "512m");
    writeFileSync(`/dev/${group}/one`, Buffer.alloc(MIB, "x"));
    await ground.lvm("lvremove", "--force", `${group}/one`);
    await create("two", "512m");
    expect(run("head", "--bytes=1048576", `/dev/${group}/two`)).toBe("\0".repeat(MIB));
  });

  it("has each volume again after its devices are gone, as after a power cut", async () => {
    await create("one", "512m");
    mountVolume("one");
    writeFileSync(join(mountPath(), "file"), "kept");
    run("umount", mountPath());
    for (const device of loopDevicesUnder(directory)) run("losetup", "--detach", device);
    rmSync(`/dev/${group}`, { recursive: true });
    expect((await report()).map(({ lv_attr }) => lv_attr)).toEqual(["-wi-a-----"]);
    run("mount", `/dev/${group}/one`, mountPath());
    expect(readFileSync(join(mountPath(), "file"), "utf8")).toBe("kept");
  });

  it("finishes at the next command what an interrupted one has left", async () => {
    await create("one", "512m");
    // As if killed between LVM's own work and that of the devices.
    const settings = { LVM_SYSTEM_DIR: ground.directory, LVM_SUPPRESS_FD_WARNINGS: "1", PATH: process.env["PATH"] };
    writeFileSync(join(ground.directory, "unsettled"), "");
    execFileSync("lvm", ["lvextend", "--size", "1g", `${group}/one`], { env: settings, stdio: "ignore" });
    expect(bytesOf("one")).toBe(512 * MIB);
    await report();
    expect(bytesOf("one")).toBe(GIB);
  });

  it("carries out commands that are given at once, one after the other", async () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    await Promise.all(names.map((name) => create(name, "64m")));
    expect((await report()).map(({ lv_name }) => lv_name).sort()).toEqual(names);
    expect(new Set(names.map(deviceOf)).size).toBe(names.length);
    expect(names.map(bytesOf)).toEqual(names.map(() => 64 * MIB));
  });
});
