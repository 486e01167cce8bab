// ReduceLV on real volumes: what proves that nothing is cut off, and what a token is worth when it comes late, twice or for something
// else. Runs inside the virtual machine that its test in test/real starts.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { CancelReduceResponse_Outcome as Outcome } from "../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  callsOf,
  createZeroingGate,
  type LvmdUnderTest,
  MIB,
  refusalOf,
  sh,
  startLvmdUnderTest,
  type ZeroingGate,
} from "./lvmd-under-test.ts";

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

  it("leaves nothing of what was on it to a volume that is made there next", async () => {
    const { uuid, path } = await makeVolume(
      "tenant",
      "yes 'of the former tenant' | dd of=DEV bs=1M seek=400 count=200 iflag=fullblock oflag=direct status=none; mkfs.btrfs -q -f -K -b 400M DEV",
    );
    const extentsOf = (name: string): string => sh(`lvs --noheadings -o seg_pe_ranges a/${name}`).trim();
    expect(extentsOf("tenant")).toBe("/dev/ubda:0-149");
    expect(sh(`dd if=${path} bs=1M skip=599 status=none | grep -cam1 'of the former tenant' || true`)).toBe("1\n");
    expect(await calls.reduce(uuid, LARGE, SMALL, "tenant")).toBe(SMALL);
    await calls.create("raw", LARGE - SMALL);
    expect(extentsOf("raw")).toBe("/dev/ubda:100-149");
    sh(`cmp -n ${LARGE - SMALL} /dev/a/raw /dev/zero; btrfs check --readonly ${path}`);
    for (const name of ["raw", "tenant"]) await calls.wipe(name);
  });

  it("of a thin volume gives what is cut off back to its pool, and a snapshot keeps it", async () => {
    const { uuid, path } = await makeVolume(
      "returned",
      "yes 'of the former tenant' | dd of=DEV bs=1M seek=400 count=200 iflag=fullblock oflag=direct status=none; mkfs.btrfs -q -f -K -b 400M DEV",
      "thin",
    );
    const usedMiB = (): number => (Number(sh("sync; lvs --noheadings -o data_percent c/pool")) / 100) * 1024;
    const cutMiB = (LARGE - SMALL) / MIB;
    sh("lvcreate -qq -s -k n -n kept c/returned");
    expect(await calls.reduce(uuid, LARGE, SMALL, "returned")).toBe(SMALL);
    expect(sh("dd if=/dev/c/kept bs=1M skip=599 status=none | grep -cam1 'of the former tenant' || true")).toBe("1\n");
    expect(usedMiB()).toBeGreaterThan(cutMiB);
    sh("lvremove -qq -y c/kept");
    await waitFor("the pool to have it back", async () => (usedMiB() < cutMiB / 4 ? true : undefined));
    sh(`btrfs check --readonly ${path}`);
    await calls.wipe("returned", "thin");
  }, 120_000);

  describe("whose end is being zeroed", () => {
    const [FULL, CUT] = [400 * MIB, 300 * MIB];
    const PIECES = [
      [300, 64],
      [364, 36],
    ];
    let gate: ZeroingGate;
    beforeAll(() => {
      gate = createZeroingGate();
    });
    afterEach(() => gate.open());

    /** A mounted filesystem that has made place, and its reduction, which waits with its first piece. */
    async function reduceHalfWay(name: string): Promise<{ path: string; unanswered: ReturnType<typeof refusalOf> }> {
      await calls.create(name, FULL);
      const { uuid, path } = await calls.get(name);
      sh(`mkfs.btrfs -q ${path}; mkdir -p /tmp/m; mount ${path} /tmp/m; btrfs filesystem resize 300M /tmp/m`);
      sh("dd if=/dev/urandom of=/tmp/m/f bs=1M count=20 status=none; sha256sum /tmp/m/f >/tmp/sum");
      gate.hold(1);
      const reducing = calls.reduce(uuid, FULL, CUT, name);
      const unanswered = refusalOf(reducing);
      const otherwise = (): Promise<string> => unanswered.then((answer) => JSON.stringify(answer));
      await waitFor("the first piece", () => (gate.pieces().length === 1 ? true : undefined), { otherwise });
      return { path, unanswered };
    }

    /** Other volumes of the group are at work; the answer comes when the piece is written, and no other piece after it. */
    async function waitsForPiece<T>(name: string, answer: Promise<T>): Promise<T> {
      let isAnswered = false;
      void answer.then(() => {
        isAnswered = true;
      });
      await calls.create(`beside-${name}`, 4 * MIB);
      await calls.resize(`beside-${name}`, 8 * MIB);
      expect(isAnswered).toBe(false);
      gate.open();
      const answered = await answer;
      expect(gate.pieces()).toEqual(PIECES.slice(0, 1));
      await calls.remove(`beside-${name}`);
      return answered;
    }

    /** The filesystem grows over all that was zeroed, and is written there. */
    async function growsAndIsWhole(name: string, path: string, sizeBytes: number): Promise<void> {
      expect(sizeOf(path)).toBe(sizeBytes);
      sh("btrfs filesystem resize max /tmp/m; dd if=/dev/urandom of=/tmp/m/g bs=1M count=120 conv=fsync status=none");
      sh("sha256sum /tmp/m/g >>/tmp/sum; umount /tmp/m");
      sh(`btrfs check --readonly ${path}; mount ${path} /tmp/m; sha256sum -c /tmp/sum; umount /tmp/m`);
      expect(gate.pieces()).toEqual(PIECES.slice(0, 1));
      await calls.wipe(name);
    }

    it("stops within a piece when its token is cancelled", async () => {
      const { path, unanswered } = await reduceHalfWay("cancelled");
      const cancelled = await waitsForPiece("cancelled", calls.cancel("cancelled"));
      expect(cancelled).toEqual({ outcome: Outcome.BURNT, sizeBytes: 0 });
      expect(await unanswered).toMatchObject({ code: "ABORTED" });
      await growsAndIsWhole("cancelled", path, FULL);
    }, 180_000);

    it("makes way for an extend, which is answered once nothing is zeroed any more", async () => {
      const { path, unanswered } = await reduceHalfWay("extended");
      const sizeBytes = FULL + 40 * MIB;
      expect(await waitsForPiece("extended", calls.resize("extended", sizeBytes))).toEqual({ sizeBytes });
      expect(await unanswered).toMatchObject({ code: "ABORTED" });
      expect(await calls.cancel("extended")).toEqual({ outcome: Outcome.BURNT, sizeBytes: 0 });
      await growsAndIsWhole("extended", path, sizeBytes);
    }, 180_000);
  });
});
