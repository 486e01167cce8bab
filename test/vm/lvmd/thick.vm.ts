// Thick, striped and mirrored classes on real LVM: every call, what LVM is given for it, and what is there afterwards. Runs inside the
// virtual machine that its test in test/real starts.
import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { waitFor } from "../../harness/wait-for.ts";
import {
  callsOf,
  GIB,
  type LvmdUnderTest,
  MIB,
  refusalOf,
  refusalsOf,
  sh,
  startLvmdUnderTest,
} from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: striped, volume-group: b, spare-gb: 0, stripe: 2, stripe-size: "64" }
- { name: mirrored, volume-group: c, spare-gb: 0, lvcreate-options: [--type, raid1, -m, "1"] }
- { name: kept, volume-group: d, spare-gb: 1 }
lvcreate-option-classes:
- { name: contiguous, options: [--alloc, contiguous] }
`;

/** The machine is this suite's own. */
const HTTP_PORT = 9468;

describe("volumes of a thick class", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh(
      "vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb /dev/ubdc; vgcreate -qq c /dev/ubdd /dev/ubde; vgcreate -qq d /dev/ubdf",
    );
    lvmd = await startLvmdUnderTest(CLASSES, ["--http-port", String(HTTP_PORT)]);
    calls = callsOf(lvmd);
  });

  afterAll(() => lvmd.stop());

  it("are made with TopoLVM's arguments, in whole extents, and named by their device", async () => {
    const { volume } = await calls.create("one", 301 * MIB, "", { tags: ["tidemark.dev/claim=shop/db", "x"] });
    expect(lvmd.recorder.taken()).toEqual([
      [
        "lvcreate",
        "-n",
        "one",
        "-L",
        `${301 * MIB}b`,
        "-W",
        "y",
        "-y",
        "--addtag",
        "tidemark.dev/claim=shop/db",
        "--addtag",
        "x",
        "a",
      ],
    ]);
    const [major, minor] = sh("lvs --noheadings -o lv_kernel_major,lv_kernel_minor a/one")
      .trim()
      .split(/\s+/)
      .map(Number);
    expect(volume).toEqual({
      name: "one",
      sizeBytes: 304 * MIB,
      devMajor: major,
      devMinor: minor,
      tags: [],
      path: "",
      attr: "",
    });
  });

  it("are told by the device that they have now, although nothing tells lvmd that they were let go of", async () => {
    await calls.create("first", 8 * MIB);
    await calls.create("second", 8 * MIB);
    const before = await calls.get("second");
    sh("lvchange -an a/first a/second; lvchange -ay a/second; lvchange -ay a/first");
    const [number] = sh("lvs --noheadings -o lv_kernel_minor a/second").trim().split(/\s+/).map(Number);
    expect(number).not.toBe(before.devMinor); // else nothing has changed hands
    expect((await calls.get("second")).devMinor).toBe(number);
    lvmd.recorder.taken();
    for (const name of ["first", "second"]) await calls.remove(name);
    lvmd.recorder.taken();
  });

  it.each([
    ["a class with stripes", "striped", "", ["-i", "2", "-I", "64", "b"]],
    ["a class with options of lvcreate", "mirrored", "", ["--type", "raid1", "-m", "1", "c"]],
    ["an option class, instead of the class' own", "striped", "contiguous", ["--alloc", "contiguous", "b"]],
  ])("are made with the arguments of %s", async (_name, deviceClass, optionClass, last) => {
    await calls.create(`x-${optionClass}`, 40 * MIB, deviceClass, { optionClass });
    expect(lvmd.recorder.taken()).toEqual([
      ["lvcreate", "-n", `x-${optionClass}`, "-L", `${40 * MIB}b`, "-W", "y", "-y", ...last],
    ]);
    await calls.remove(`x-${optionClass}`, deviceClass);
    expect(lvmd.recorder.taken()).toEqual([["lvremove", "-f", `${last.at(-1)}/x-${optionClass}`]]);
  });

  it("are one volume when the same call comes again, and another size is refused", async () => {
    const again = await calls.create("one", 301 * MIB);
    expect(again.volume).toMatchObject({ name: "one", sizeBytes: 304 * MIB });
    expect(lvmd.recorder.taken()).toEqual([]);
    expect(await refusalOf(calls.create("one", 400 * MIB))).toEqual({
      code: "ALREADY_EXISTS",
      message: expect.stringContaining("another volume one, of 318767104 bytes"),
    });
  });

  it("are listed with all that TopoLVM lists, at once after they were made", async () => {
    const [one, ...others] = await calls.list();
    expect(others).toEqual([]);
    expect(one).toMatchObject({
      name: "one",
      path: "/dev/a/one",
      sizeBytes: 304 * MIB,
      tags: ["tidemark.dev/claim=shop/db", "x"],
      attr: "-wi-a-----",
    });
  });

  it("tell LVM's UUID and what was read and written", async () => {
    const before = await calls.get("one");
    expect(before.uuid).toBe(sh("lvs --noheadings -o lv_uuid a/one").trim());
    sh("dd if=/dev/zero of=/dev/a/one bs=1M count=8 oflag=direct status=none");
    const { io } = await calls.get("one");
    expect((io?.writtenBytes ?? 0) - (before.io?.writtenBytes ?? 0)).toBe(8 * MIB);
  });

  it("are what Prometheus is told, as LVM and the kernel have it, and so are LVM's commands and lvmd's calls", async () => {
    const text = await (await fetch(`http://127.0.0.1:${HTTP_PORT}/metrics`)).text();
    const sample = (series: string): number | undefined => {
      const line = text.split("\n").find((each) => each.startsWith(`${series} `));
      return line === undefined ? undefined : Number(line.slice(series.length + 1));
    };
    const ofGroup = (field: string): number => Number(sh(`vgs --noheadings --units b --nosuffix -o ${field} a`).trim());
    const one = '{device_class="thick",volume="one",namespace="shop",persistentvolumeclaim="db"}';
    const { io } = await calls.get("one");
    expect({
      groupSize: sample('tidemark_volume_group_size_bytes{device_class="thick"}'),
      groupFree: sample('tidemark_volume_group_free_bytes{device_class="thick"}'),
      classSize: sample('tidemark_device_class_size_bytes{device_class="thick"}'),
      classFree: sample('tidemark_device_class_free_bytes{device_class="thick"}'),
      mirroredFree: sample('tidemark_device_class_free_bytes{device_class="mirrored"}'),
      volumeSize: sample(`tidemark_logical_volume_size_bytes${one}`),
      written: sample(`tidemark_logical_volume_written_bytes_total${one}`),
      writes: sample(`tidemark_logical_volume_writes_total${one}`),
      stranded: sample("tidemark_lvmd_stranded_commands"),
    }).toEqual({
      groupSize: ofGroup("vg_size"),
      groupFree: ofGroup("vg_free"),
      classSize: ofGroup("vg_size"),
      classFree: await calls.free(),
      mirroredFree: await calls.free("mirrored"),
      volumeSize: 304 * MIB,
      written: io?.writtenBytes,
      writes: io?.writes,
      stranded: 0,
    });
    expect(sample('tidemark_lvm_command_duration_seconds_count{command="lvcreate",outcome="ok"}')).toBeGreaterThan(0);
    expect(sample('tidemark_lvmd_call_duration_seconds_count{method="CreateLV",code="OK"}')).toBeGreaterThan(0);
    expect(sample('tidemark_lvmd_call_duration_seconds_count{method="CreateLV",code="ALREADY_EXISTS"}')).toBe(1);
  });

  it("grow with TopoLVM's arguments, and never shrink by ResizeLV", async () => {
    lvmd.recorder.taken();
    expect(await calls.resize("one", 500 * MIB + 1)).toEqual({ sizeBytes: 504 * MIB });
    expect(lvmd.recorder.taken()).toEqual([["lvresize", "-L", `${500 * MIB + 4096}b`, "a/one"]]);
    expect(await calls.resize("one", 100 * MIB)).toEqual({ sizeBytes: 504 * MIB });
    expect(lvmd.recorder.taken()).toEqual([]);
    expect(sh("lvs --noheadings --units b --nosuffix -o lv_size a/one").trim()).toBe(String(504 * MIB));
  });

  it("are renamed and tagged, and the same call again changes nothing", async () => {
    expect(await calls.rename("one", "two")).toMatchObject({ name: "two", path: "/dev/a/two" });
    expect(await calls.rename("one", "two")).toMatchObject({ name: "two" });
    expect(lvmd.recorder.taken()).toEqual([["lvrename", "a", "one", "two"]]);
    const tagged = await calls.tag("two", ["x", "y=z"], ["tidemark.dev/claim=shop/db", "none"]);
    expect([...tagged.tags].sort()).toEqual(["x", "y=z"]);
    await calls.tag("two", ["y=z"], ["none"]);
    expect(lvmd.recorder.taken()).toEqual([
      ["lvchange", "--addtag", "y=z", "--deltag", "tidemark.dev/claim=shop/db", "a/two"],
    ]);
  });

  it("are activated where nothing else did, also those that LVM is to skip, unless their wipe has begun", async () => {
    await calls.create("idle", 8 * MIB);
    sh("lvchange -ky a/idle; lvchange -an a/idle");
    lvmd.recorder.taken();
    const { devMajor, devMinor } = await calls.activate("idle");
    expect(sh("lvs --noheadings -o lv_kernel_major,lv_kernel_minor a/idle").trim().split(/\s+/).map(Number)).toEqual([
      devMajor,
      devMinor,
    ]);
    await calls.activate("idle");
    expect(lvmd.recorder.taken()).toEqual([["lvchange", "-a", "y", "-K", "a/idle"]]);
    sh("lvchange -an a/idle; lvchange --addtag tidemark.dev/wipe-begun a/idle");
    expect(await refusalOf(calls.activate("idle"))).toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(await refusalOf(calls.activate("none"))).toMatchObject({ code: "NOT_FOUND" });
    await calls.wipe("idle");
    lvmd.recorder.taken();
  });

  it("have no snapshots", async () => {
    expect(await refusalOf(calls.snapshot("s", "two", "rw", 0, ""))).toMatchObject({ code: "UNIMPLEMENTED" });
  });

  it("leave what they held as zeros when they are wiped and removed; a mounted one is not touched", async () => {
    sh("mkfs.ext4 -q /dev/a/two; mkdir -p /tmp/two; mount /dev/a/two /tmp/two; echo secret >/tmp/two/file; sync");
    const inUse = { code: "FAILED_PRECONDITION", message: "volume a/two is in use: nothing on it is touched" };
    expect(await refusalOf(calls.wipe("two"))).toEqual(inUse);
    expect(await refusalOf(calls.remove("two"))).toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(readFileSync("/tmp/two/file", "utf8")).toBe("secret\n");
    sh("umount /tmp/two");
    await calls.wipe("two");
    await calls.wipe("two");
    expect(await calls.list()).toEqual([]);
    expect(sh("grep -c secret /dev/ubda || true").trim()).toBe("0");
    sh("lvcreate -qq -y -Wn -Zn -L 504m -n raw a; cmp -n 528482304 /dev/a/raw /dev/zero; lvremove -qq -f a/raw");
  });

  it("held open by a process without a mount are not touched either", async () => {
    await calls.create("open", 40 * MIB);
    sh(
      "touch /tmp/hold; exec 9</dev/a/open; ( while [ -e /tmp/hold ]; do sleep 0.1; done ) </dev/null >/dev/null 2>&1 & true",
    );
    expect(await refusalOf(calls.wipe("open"))).toMatchObject({ code: "FAILED_PRECONDITION" });
    sh("rm /tmp/hold");
    await waitFor("it to be free", async () => {
      const { code } = await refusalOf(calls.wipe("open"));
      return code === "OK" ? true : undefined;
    });
  });

  it("count what is true: mirrors take twice their size, and the spare is honoured everywhere", async () => {
    const free = await calls.free("mirrored");
    expect(free).toBe(GIB - 4 * MIB - 4 * MIB); // the devices' own metadata, and the mirror's
    await calls.create("all", free, "mirrored");
    expect(await calls.free("mirrored")).toBe(0);
    await calls.remove("all", "mirrored");

    const keptFree = await calls.free("kept");
    expect(keptFree).toBe(2 * GIB - 4 * MIB - GIB);
    expect(await refusalOf(calls.create("more", keptFree + 1, "kept"))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await calls.create("fits", keptFree, "kept");
    expect(await refusalOf(calls.resize("fits", keptFree + 1, "kept"))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  it("are never said to be gone where their class has come to point at another group", async () => {
    await calls.create("held", 8 * MIB, "", { tags: ["tidemark.dev/volume-uid=of-held"] });
    const settings = readFileSync(lvmd.settingsFile, "utf8");
    const exchanged = settings
      .replace("thick, volume-group: a", "thick, volume-group: d")
      .replace("kept, volume-group: d", "kept, volume-group: a");
    writeFileSync(lvmd.settingsFile, exchanged);
    await waitFor("the class to point elsewhere", async () =>
      (await refusalOf(calls.get("held"))).code === "OK" ? undefined : true,
    );
    lvmd.recorder.taken();
    for (const refusal of await refusalsOf([
      calls.get("held"),
      calls.remove("held"),
      calls.wipe("held"),
      calls.resize("held", 12 * MIB),
      calls.create("held", 8 * MIB),
      calls.rename("held", "other"),
    ]))
      expect(refusal).toEqual({
        code: "FAILED_PRECONDITION",
        message:
          "device class thick is volume group d, and volume held is in volume group a: nothing is done to it. " +
          "Point the class at it; remove it by hand only where its lv_uuid and lv_tags say that it is this volume, and no other of its name",
      });
    expect(lvmd.recorder.taken()).toEqual([]);
    writeFileSync(lvmd.settingsFile, settings);
    await waitFor("the class to point back", async () =>
      (await refusalOf(calls.wipe("held"))).code === "OK" ? true : undefined,
    );
    expect(sh("lvs --noheadings a/held 2>/dev/null || echo gone").trim()).toBe("gone");
  });

  it("fill a striped class to the last byte that it tells of", async () => {
    const free = await calls.free("striped");
    await calls.create("all", free, "striped");
    expect(await calls.free("striped")).toBe(0);
    expect(sh("vgs --noheadings --units b --nosuffix -o vg_free b").trim()).toBe("0");
  });
});
