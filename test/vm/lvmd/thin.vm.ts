// A thin class on real LVM: every call, what LVM is given for it, and what is there afterwards. Runs inside the virtual machine that
// its test in test/real starts.
import { open } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { DeviceClass, WatchClassesResponse } from "../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { callsOn, makeCall, readComparedRows } from "../../harness/compared-calls.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { callsOf, GIB, type LvmdUnderTest, MIB, refusalOf, sh, startLvmdUnderTest } from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thin, volume-group: a, default: true, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 2 } }
- { name: raw, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 2 } }
- { name: narrow, volume-group: c, spare-gb: 1, type: thin, thin-pool: { name: pool, overprovision-ratio: 10 } }
`;

const CHUNK_BYTES = 65_536;
const SCATTERED_CHUNKS = 800;
const BLOCK = Buffer.alloc(4096, "x");

async function writeOncePerChunk(path: string, first: number, count: number): Promise<void> {
  const device = await open(path, "r+");
  try {
    for (let index = first; index < first + count; index += 1)
      await device.write(BLOCK, 0, BLOCK.length, index * CHUNK_BYTES);
    await device.sync();
  } finally {
    await device.close();
  }
}

describe("volumes of a thin class", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;
  let classes: readonly DeviceClass[] = [];

  beforeAll(async () => {
    sh("vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb; vgcreate -qq c /dev/ubdc");
    sh("lvcreate -qq -y -T a/pool -L 1g; lvcreate -qq -y -Zn -T b/pool -L 400m; lvcreate -qq -y -T c/pool -L 1100m");
    sh("lvchange -qq -a n c/pool");
    lvmd = await startLvmdUnderTest(CLASSES);
    calls = callsOf(lvmd);
    lvmd.lvmd
      .watchClasses({})
      .on("data", (message: WatchClassesResponse) => {
        classes = message.classes;
      })
      .on("error", () => undefined);
  });

  afterAll(() => lvmd.stop());

  const classNamed = (name: string): DeviceClass | undefined => classes.find((candidate) => candidate.name === name);

  it("are made in pools that zero and are active, which lvmd sees to at its start, and once", async () => {
    const done = ["lvchange -Z y b/pool", "lvchange -a y -K c/pool"];
    const commands: string[] = [];
    await waitFor("all to be done", async () => {
      commands.push(...lvmd.recorder.taken().map((command) => command.join(" ")));
      return classNamed("narrow")?.problem === "" && commands.length >= done.length ? true : undefined;
    });
    expect(commands.sort()).toEqual(done.sort());
    expect(await calls.free("narrow")).toBeGreaterThan(0);
    expect(sh("lvs --noheadings -o lv_attr b/pool c/pool").trim().split(/\s+/)).toEqual(["twi-a-tz--", "twi-a-tz--"]);
    sh("lvchange -qq -a n c/pool; vgchange -qq --addtag looked c");
    await waitFor("the class to be told", async () => {
      const problem = classNamed("narrow")?.problem ?? "";
      return problem.includes('is not active. lvmd activates it once, when it finds it so first; then "lvchange')
        ? true
        : undefined;
    });
    expect(lvmd.recorder.taken()).toEqual([]);
    sh("lvchange -qq -a y -K c/pool; vgchange -qq --addtag activated c");
    await waitFor("the class to be well", async () => (classNamed("narrow")?.problem === "" ? true : undefined));
  }, 120_000);

  it("are made with TopoLVM's arguments, and are listed apart from their pool", async () => {
    const { volume } = await calls.create("one", 300 * MIB, "", { tags: ["x"] });
    expect(lvmd.recorder.taken()).toEqual([
      ["lvcreate", "-T", "a/pool", "-n", "one", "-V", `${300 * MIB}b`, "-W", "y", "-y", "--addtag", "x"],
    ]);
    expect(volume).toMatchObject({ name: "one", sizeBytes: 300 * MIB });
    expect(await calls.list()).toEqual([expect.objectContaining({ name: "one", tags: ["x"], attr: "Vwi-a-tz--" })]);
    expect(await calls.get("one")).toMatchObject({ thin: true, dataPercent: 0, path: "/dev/a/one" });
  });

  it("promise as much as the ratio allows, less the spare", async () => {
    expect(await calls.free()).toBe(2 * GIB - 300 * MIB);
    expect(await calls.free("narrow")).toBe(11000 * MIB - 10 * GIB + 9 * GIB);
    const free = await calls.free();
    expect(await refusalOf(calls.create("more", free + 1))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await refusalOf(calls.resize("one", free + 300 * MIB + 1))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await calls.create("more", free);
    expect(await calls.free()).toBe(0);
    await calls.remove("more");
    lvmd.recorder.taken();
  });

  it("grow", async () => {
    expect(await calls.resize("one", 400 * MIB)).toEqual({ sizeBytes: 400 * MIB });
    expect(lvmd.recorder.taken()).toEqual([["lvresize", "-L", `${400 * MIB}b`, "a/one"]]);
  });

  it("have snapshots, made in TopoLVM's steps, larger on demand, once for each name", async () => {
    sh(
      "mkfs.ext4 -q /dev/a/one; mkdir -p /tmp/one; mount /dev/a/one /tmp/one; echo kept >/tmp/one/file; sync; umount /tmp/one",
    );
    const { snapshot } = await calls.snapshot("snap", "one", "rw", 500 * MIB, "");
    expect(lvmd.recorder.taken()).toEqual([
      ["lvcreate", "-s", "-k", "n", "-n", "snap", "a/one", "--addtag", "of=snapshot"],
      ["lvresize", "-L", `${500 * MIB}b`, "a/snap"],
      ["lvchange", "-k", "n", "-a", "y", "/dev/a/snap"],
    ]);
    expect(snapshot).toMatchObject({ name: "snap", sizeBytes: 500 * MIB });
    expect(sh("mount /dev/a/snap /tmp/one; cat /tmp/one/file; umount /tmp/one")).toBe("kept\n");
    expect((await calls.snapshot("snap", "one", "rw", 500 * MIB, "")).snapshot).toMatchObject({ sizeBytes: 500 * MIB });
    expect(await calls.get("snap")).toMatchObject({ origin: "one", tags: ["of=snapshot"] });
  });

  it("have read-only snapshots", async () => {
    lvmd.recorder.taken();
    await calls.snapshot("fixed", "one", "ro", 0, "");
    await calls.snapshot("fixed", "one", "ro", 0, "");
    expect(lvmd.recorder.taken()).toEqual([
      ["lvcreate", "-s", "-k", "n", "-n", "fixed", "a/one", "--addtag", "of=snapshot"],
      ["lvchange", "-p", "r", "/dev/a/fixed"],
    ]);
    expect((await calls.get("fixed")).attr).toBe("Vri-a-tz--");
  });

  it.each([
    ["a smaller one than its source", "s", "one", "rw", 100 * MIB, "OUT_OF_RANGE"],
    ["of a volume that is not there", "s", "none", "rw", 0, "NOT_FOUND"],
    ["with an access that there is not", "s", "one", "rx", 0, "INVALID_ARGUMENT"],
    ["with a name that is another volume's", "snap", "fixed", "rw", 0, "ALREADY_EXISTS"],
    ["with a name that is an option", "--yes", "one", "rw", 0, "INVALID_ARGUMENT"],
    ["of a negative size", "s", "one", "rw", -1, "INVALID_ARGUMENT"],
  ])("have no snapshot %s", async (_case, name, source, access, sizeBytes, code) => {
    expect(await refusalOf(calls.snapshot(name, source, access, sizeBytes, ""))).toMatchObject({ code });
  });

  it.each(callsOn("thin"))("are answered for as the page says beside TopoLVM: %s", async (call) => {
    const row = readComparedRows().find((candidate) => candidate.call === call);
    expect(await makeCall(call, { clients: lvmd, group: "a" })).toBe(row?.here);
    lvmd.recorder.taken();
  });

  it("get back what they held when a snapshot was taken of them, and are active afterwards", async () => {
    await calls.create("changed", 100 * MIB, "", { tags: ["owner=x"] });
    sh("yes before | dd of=/dev/a/changed bs=1M count=30 iflag=fullblock oflag=direct status=none");
    const { uuid } = await calls.get("changed");
    const sum = (name = "changed"): string => sh(`sha1sum </dev/a/${name}`);
    const before = sum();
    await calls.snapshot("earlier", "changed", "ro", 0, "");
    await calls.snapshot("guard", "changed", "rw", 0, "");
    sh("yes after | dd of=/dev/a/changed bs=1M count=60 iflag=fullblock oflag=direct status=none");
    expect(sum()).not.toBe(before);
    lvmd.recorder.taken();
    const merged = await calls.merge("changed", "guard");
    expect(lvmd.recorder.taken()).toEqual([
      ["lvchange", "-a", "n", "a/changed", "a/guard"],
      ["lvconvert", "-y", "--merge", "a/guard"],
      ["lvchange", "-a", "y", "-K", "a/changed"],
    ]);
    expect(merged).toMatchObject({ uuid, sizeBytes: 100 * MIB, attr: "Vwi-a-tz--", origin: "" });
    expect(merged.tags).toContain("owner=x");
    expect(sum()).toBe(before);
    expect(await refusalOf(calls.get("guard"))).toMatchObject({ code: "NOT_FOUND" });
    expect(await calls.merge("changed", "guard")).toMatchObject({ uuid });
    expect(lvmd.recorder.taken()).toEqual([]);
    expect(sum("earlier")).toBe(before);
    await calls.wipe("earlier");
  });

  it("are never merged into while they are in use, and nothing of it is left to the next activation", async () => {
    await calls.snapshot("guard", "changed", "rw", 0, "");
    sh("mkfs.ext4 -q -F /dev/a/changed; mount /dev/a/changed /tmp/one");
    const refused = { code: "FAILED_PRECONDITION", message: expect.stringContaining("changed is in use") };
    expect(await refusalOf(calls.merge("changed", "guard"))).toEqual(refused);
    expect((await calls.get("changed")).attr).toBe("Vwi-aotz--");
    sh("umount /tmp/one; blkid -o value -s TYPE /dev/a/changed | grep -qx ext4");
  });

  it.each([
    ["of another volume", "one", "guard", "FAILED_PRECONDITION"],
    ["of a volume that has grown since", "changed", "guard", "FAILED_PRECONDITION"],
    ["into a volume that is not there", "none", "guard", "NOT_FOUND"],
    ["into itself", "changed", "changed", "INVALID_ARGUMENT"],
    ["with a name that is an option", "changed", "--yes", "INVALID_ARGUMENT"],
  ])("have no snapshot merged %s", async (why, name, snapshot, code) => {
    if (why.includes("grown")) sh("lvextend -qq -L +4m a/changed");
    expect(await refusalOf(calls.merge(name, snapshot))).toMatchObject({ code });
    expect((await calls.get("guard")).origin).toBe("changed");
  });

  it("stop being made before writes have to stop: what the pool can still take is less than the spare", async () => {
    expect(await calls.free("narrow")).toBeGreaterThan(0);
    await calls.create("filler", 400 * MIB, "narrow");
    sh("dd if=/dev/urandom of=/dev/c/filler bs=1M count=100 oflag=direct status=none");
    await waitFor("the class to be full", async () => (classNamed("narrow")?.freeBytes === 0 ? true : undefined), {
      limitMs: 20_000,
    });
    expect(await refusalOf(calls.create("late", 4 * MIB, "narrow"))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(classNamed("narrow")?.thinPool?.dataPercent).toBeCloseTo(9.09, 1);
  });

  it("let their pool alone while nothing is written, and make it be heard of when small writes take many chunks", async () => {
    await calls.create("scattered", 400 * MIB);
    // Seconds in which it looks several times, also once more at what was written right before a report.
    await waitFor("lvmd to start nothing", async () => {
      lvmd.recorder.begun();
      await pause(5000);
      return lvmd.recorder.begun() === 0 ? true : undefined;
    });
    // Not a hundredth of the pool is written, a twentieth is taken; and again, since the first might be seen by the look of each minute.
    for (const first of [0, SCATTERED_CHUNKS]) {
      const before = classNamed("thin")?.thinPool?.dataPercent ?? 0;
      await writeOncePerChunk("/dev/a/scattered", first, SCATTERED_CHUNKS);
      const takenPercent = (100 * SCATTERED_CHUNKS * CHUNK_BYTES) / GIB;
      const isFuller = (): true | undefined =>
        (classNamed("thin")?.thinPool?.dataPercent ?? 0) >= before + takenPercent - 1 ? true : undefined;
      await waitFor("the pool to be fuller", isFuller, { limitMs: 45_000 });
    }
    await calls.remove("scattered");
  }, 120_000);

  it("have a pool that grows, its metadata first, and never beyond the spare", async () => {
    lvmd.recorder.taken();
    expect(await calls.extendPool("", 1200 * MIB, 8 * MIB)).toEqual({
      sizeBytes: 1200 * MIB,
      metadataSizeBytes: 8 * MIB,
    });
    expect(lvmd.recorder.taken()).toEqual([
      ["lvextend", "--poolmetadatasize", `${8 * MIB}b`, "a/pool"],
      ["lvextend", "-L", `${1200 * MIB}b`, "a/pool"],
    ]);
    await calls.extendPool("", 1200 * MIB, 0);
    expect(lvmd.recorder.taken()).toEqual([]);
    expect(classNamed("thin")?.thinPool).toMatchObject({ sizeBytes: 1200 * MIB, metadataSizeBytes: 8 * MIB });
    expect(await refusalOf(calls.extendPool("narrow", 1900 * MIB, 0))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await refusalOf(calls.extendPool("", -1, 0))).toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("show nothing old: the pool zeroes, or is made to", async () => {
    lvmd.recorder.taken();
    await calls.wipe("snap");
    expect(lvmd.recorder.taken()).toEqual([["lvremove", "-f", "a/snap"]]);

    // What is trimmed goes to whoever writes next, and what a snapshot has shared stays, whatever is written over it.
    sh("lvchange -qq -Z n b/pool");
    const told = (field: string): string => sh(`lvs --noheadings -o ${field} b/pool`).trim();
    await waitFor("the pool to zero again", () => (told("zero") === "zero" ? true : undefined));
    expect(lvmd.recorder.taken()).toEqual([["lvchange", "-Z", "y", "b/pool"]]);
    await calls.create("old", 300 * MIB, "raw");
    sh("yes secret | dd of=/dev/b/old bs=1M count=200 iflag=fullblock oflag=direct status=none");
    await calls.create("next", 300 * MIB, "raw");
    const showsNothing = async (firstMib: number, sizeMib: number): Promise<void> => {
      await writeOncePerChunk("/dev/b/next", (firstMib * MIB) / CHUNK_BYTES, (sizeMib * MIB) / CHUNK_BYTES);
      expect(sh("grep -c x /dev/b/next").trim()).not.toBe("0");
      expect(sh("grep -c secret /dev/b/next || true").trim()).toBe("0");
    };
    sh("blkdiscard -o 0 -l 104857600 /dev/b/old");
    await waitFor("the pool to have it back", () => (Number(told("data_percent")) < 30 ? true : undefined));
    await showsNothing(0, 250);
    await calls.wipe("next", "raw");
    await calls.snapshot("fixed-old", "old", "ro", 0, "raw");
    lvmd.recorder.taken();
    await calls.wipe("fixed-old", "raw");
    await calls.wipe("old", "raw");
    expect(lvmd.recorder.taken()).toEqual([
      ["lvremove", "-f", "b/fixed-old"],
      ["lvremove", "-f", "b/old"],
    ]);
    await calls.create("next", 300 * MIB, "raw");
    await showsNothing(0, 300);
  }, 120_000);
});
