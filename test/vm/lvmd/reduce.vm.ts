// ReduceLV on real volumes: what proves that nothing is cut off, and what a token is worth when it comes late, twice or for something
// else. Runs inside the virtual machine that test/real/lvmd.test.ts starts.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { CancelReduceResponse_Outcome as Outcome } from "../../../src/gen/tidemark/lvmd/v1/lvmd.ts";
import { callsOf, type LvmdUnderTest, MIB, refusalOf, sh, startLvmdUnderTest } from "./lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: striped, volume-group: b, spare-gb: 0, stripe: 2 }
- { name: thin, volume-group: c, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }
`;
const LARGE = 600 * MIB;
const SMALL = 400 * MIB;

describe("a reduction", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh(
      "vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb /dev/ubdc; vgcreate -qq c /dev/ubdd; lvcreate -qq -y -T c/pool -L 1g",
    );
    lvmd = await startLvmdUnderTest(CLASSES);
    calls = callsOf(lvmd);
  });

  afterAll(() => lvmd.stop());

  /** A volume with a filesystem that ends at or before SMALL, unless `format` says otherwise. */
  async function makeVolume(name: string, format: string, deviceClass = ""): Promise<{ uuid: string; path: string }> {
    await calls.create(name, LARGE, deviceClass);
    const { uuid, path } = await calls.get(name, deviceClass);
    sh(format.replaceAll("DEV", path));
    lvmd.recorder.taken();
    return { uuid, path };
  }

  const sizeOf = (path: string): number =>
    Number(sh(`lvs --noheadings --units b --nosuffix -o lv_size ${path}`).trim());
  /** The beginning of its header is all that tells it. */
  const LUKS = "printf 'LUKS\\272\\276\\000\\001' | dd of=DEV conv=notrunc status=none";
  const BTRFS = "mkfs.btrfs -q -f -b 400M DEV";

  it.each([
    ["btrfs", BTRFS, ""],
    ["ext4", "mkfs.ext4 -q DEV 400M", ""],
    ["xfs", "mkfs.xfs -q -f -d size=400m DEV", ""],
    ["btrfs on a thin volume", BTRFS, "thin"],
    ["btrfs over two devices", BTRFS, "striped"],
  ])(
    "takes what is behind a %s, and not a byte of it",
    async (name, format, deviceClass) => {
      const { uuid, path } = await makeVolume(`of-${name.length}-${deviceClass}`, format, deviceClass);
      const volumeName = `of-${name.length}-${deviceClass}`;
      const beyond = await refusalOf(calls.reduce(uuid, LARGE, SMALL - 4096, `beyond-${volumeName}`));
      expect(beyond).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("ends at 419430400"),
      });
      expect(lvmd.recorder.taken()).toEqual([]);
      expect(await calls.reduce(uuid, LARGE, SMALL, `right-${volumeName}`)).toBe(SMALL);
      expect(sizeOf(path)).toBe(SMALL);
      expect(lvmd.recorder.taken()).toEqual([["lvreduce", "-f", "-y", "-L", `${SMALL}b`, path.replace("/dev/", "")]]);
      sh(
        name.startsWith("btrfs")
          ? `btrfs check --readonly ${path}`
          : name === "ext4"
            ? `e2fsck -fn ${path}`
            : `xfs_repair -n ${path}`,
      );
      await calls.wipe(volumeName, deviceClass);
    },
    120_000,
  );

  it("is rounded up to whole extents and stripes", async () => {
    const { uuid } = await makeVolume("odd", "mkfs.btrfs -q -f -b 390M DEV", "striped");
    expect(await calls.reduce(uuid, LARGE, 397 * MIB, "odd")).toBe(SMALL);
    await calls.wipe("odd", "striped");
  });

  it("of a mounted filesystem works while it is written", async () => {
    const { uuid, path } = await makeVolume("mounted", "mkfs.btrfs -q DEV");
    sh(
      `mkdir -p /tmp/m; mount ${path} /tmp/m; dd if=/dev/urandom of=/tmp/m/f bs=1M count=60 status=none; sha256sum /tmp/m/f >/tmp/sum`,
    );
    expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL, "too-early"))).toMatchObject({
      code: "FAILED_PRECONDITION",
    });
    sh("btrfs filesystem resize 400M /tmp/m");
    expect(await calls.reduce(uuid, LARGE, SMALL, "mounted")).toBe(SMALL);
    sh("dd if=/dev/urandom of=/tmp/m/g bs=1M count=20 conv=fsync status=none; sha256sum -c /tmp/sum; umount /tmp/m");
    sh(`btrfs check --readonly ${path}`);
    await calls.wipe("mounted");
  });

  it.each([
    ["an empty volume", "true", "no filesystem"],
    ["a swap device", "mkswap DEV", "swap"],
    ["an encrypted volume", LUKS, "crypto_LUKS"],
    ["an encrypted volume where a btrfs once was", `${BTRFS}; ${LUKS}`, "crypto_LUKS"],
    ["ext3", "mkfs.ext3 -q DEV 400M", "ext3"],
    ["another volume group's device", "dd if=/dev/ubda of=DEV bs=1M count=1 status=none", "LVM2_member"],
    [
      "a damaged superblock",
      "mkfs.btrfs -q -f -b 400M DEV; printf 'xxxxxxxx' | dd of=DEV bs=1 seek=65584 conv=notrunc status=none",
      "",
    ],
  ])("of %s is refused", async (_case, format, word) => {
    const { uuid, path } = await makeVolume("foreign", format);
    const refusal = await refusalOf(calls.reduce(uuid, LARGE, SMALL, `foreign-${_case.replaceAll(/\W/g, "-")}`));
    expect(refusal).toMatchObject({ code: "FAILED_PRECONDITION", message: expect.stringContaining(word) });
    expect(sizeOf(path)).toBe(LARGE);
    await calls.wipe("foreign");
  });

  it("is refused where `from` lies, with either sign, and where it is none", async () => {
    const { uuid, path } = await makeVolume("lied", BTRFS);
    for (const [from, to, code] of [
      [LARGE + 4 * MIB, SMALL, "ABORTED"],
      [LARGE - 4 * MIB, SMALL, "ABORTED"],
      [LARGE, LARGE + 4 * MIB, "INVALID_ARGUMENT"],
      [LARGE, 0, "INVALID_ARGUMENT"],
      [LARGE, -1, "INVALID_ARGUMENT"],
    ] as const)
      expect(await refusalOf(calls.reduce(uuid, from, to, `lie${from}.${to}`))).toMatchObject({ code });
    expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL, "../x"))).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(sizeOf(path)).toBe(LARGE);
    await calls.wipe("lied");
  });

  it("that comes twice is one, and its token is good for nothing else", async () => {
    const { uuid, path } = await makeVolume("twice", BTRFS);
    expect(
      await Promise.all([calls.reduce(uuid, LARGE, SMALL, "twice"), calls.reduce(uuid, LARGE, SMALL, "twice")]),
    ).toEqual([SMALL, SMALL]);
    expect(lvmd.recorder.taken().filter(([command]) => command === "lvreduce")).toHaveLength(1);
    expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL - 4 * MIB, "twice"))).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(await refusalOf(calls.reduce("other", LARGE, SMALL, "twice"))).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await calls.cancel("twice")).toEqual({ outcome: Outcome.REDUCED, sizeBytes: SMALL });
    // Late, after the volume has grown again: the token's answer, and no second cut.
    await calls.resize("twice", LARGE);
    expect(await calls.reduce(uuid, LARGE, SMALL, "twice")).toBe(SMALL);
    expect(sizeOf(path)).toBe(LARGE);
    await calls.wipe("twice");
  });

  it("that arrives after its token was cancelled does nothing", async () => {
    const { uuid, path } = await makeVolume("late", BTRFS);
    expect(await calls.cancel("late")).toEqual({ outcome: Outcome.BURNT, sizeBytes: 0 });
    expect(await calls.cancel("late")).toEqual({ outcome: Outcome.BURNT, sizeBytes: 0 });
    expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL, "late"))).toMatchObject({ code: "ABORTED" });
    expect(sizeOf(path)).toBe(LARGE);
    await calls.wipe("late");
  });

  it("that arrives after an extend does nothing", async () => {
    const { uuid, path } = await makeVolume("grown", BTRFS);
    await calls.resize("grown", LARGE + 40 * MIB);
    expect(await refusalOf(calls.reduce(uuid, LARGE, SMALL, "grown"))).toMatchObject({ code: "ABORTED" });
    expect(sizeOf(path)).toBe(LARGE + 40 * MIB);
    await calls.wipe("grown");
  });
});
