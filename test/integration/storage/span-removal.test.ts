// Taking members out of a span: what is recorded before the kernel is asked, which device is named to it, and what nothing begins for.
// Real btrfs over a real CSI node plugin.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, renameSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import type { MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import type { Effects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  bytesOf,
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  restore,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "./span-fixture.ts";
import { GIB, MIB, makeShrinkControl } from "./storage-fixture.ts";

const SUPERBLOCK = { offsetBytes: 64 * 1024, lengthBytes: 4096, magicOffset: 0x40 } as const;

describeReal("members that shall leave a span", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let volume: SpanVolume;
  let mountPath: string;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    volume = makeSpan([]);
    mountPath = fixture.mountPathOf(volume);
  });
  afterEach(() => fixture.cleanUp());

  /** All of them in the filesystem, as the first node has it that nobody has asked about devices yet. */
  async function stage(members: readonly SpanMember[]): Promise<MountedSpan> {
    const [first] = members;
    const mounted = await fixture.storage.stage(withMembers(volume, first === undefined ? [] : [first]), 0, mountPath);
    const sizeBytes = members.reduce((sum, member) => sum + (member.sizeBytes ?? 0), 0);
    expect(await fixture.storage.extend(withMembers(mounted, members), sizeBytes)).toBe(sizeBytes);
    return withMembers(mounted, members);
  }
  const shrink = (mounted: MountedSpan, members: readonly SpanMember[], effects?: Effects) =>
    (effects === undefined ? fixture.storage : spanStorageIn(fixture.directory, effects)).shrink(
      withMembers(mounted, members),
      GIB,
      makeShrinkControl(),
    );
  const devices = (): string[] => readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`).sort();
  const deviceOf = (member: SpanMember): string => basename(fixture.deviceOf(member) ?? "");
  const removals = (): unknown[] =>
    (JSON.parse(readFileSync(join(fixture.recordDirectory, `${volume.handle}.span.json`), "utf8")) as { removals: [] })
      .removals;
  /** On the disk, of random bytes. */
  const written = (name: string, megabytes: number): string => {
    const path = join(mountPath, name);
    execFileSync("dd", ["if=/dev/urandom", `of=${path}`, "bs=1M", `count=${megabytes}`, "conv=fsync", "status=none"]);
    return sumOf(name);
  };
  const sumOf = (name: string): string =>
    execFileSync("sha256sum", ["--binary"], { input: readFileSync(join(mountPath, name)) }).toString();
  /** Of the first member, if it is made before others come. */
  const makeSwapfile = (megabytes: number): string => {
    const swapfile = join(mountPath, "swap");
    execFileSync("touch", [swapfile]);
    execFileSync("chattr", ["+C", swapfile]);
    execFileSync("dd", ["if=/dev/zero", `of=${swapfile}`, "bs=1M", `count=${megabytes}`, "conv=fsync", "status=none"]);
    execFileSync("chmod", ["600", swapfile]);
    execFileSync("mkswap", [swapfile], { stdio: "pipe" });
    return swapfile;
  };
  /** Called right before the kernel is asked, and after it, however that ends. */
  const aroundRemoval = (before: () => void, after: () => void = () => undefined): Effects => ({
    run: async (point, effect) => {
      if (point !== "span/remove-device") return effect();
      before();
      try {
        return await effect();
      } finally {
        after();
      }
    },
  });

  it("are recorded as leaving before the kernel is asked to take them out", async () => {
    const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
    const mounted = await stage([m0, m1]);
    let recorded: unknown[] = [];
    const effects = aroundRemoval(() => {
      recorded = removals();
    });
    expect(await shrink(mounted, [m0, leaving(m1)], effects)).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(recorded).toMatchObject([{ member: "m1", devid: 2, sizeBytes: GIB, state: "leaving" }]);
  });

  it("are mounted with the others where another node has added them again since, whatever this one's record says of before", async () => {
    const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
    const mounted = await stage([m0, m1]);
    await shrink(mounted, [m0, leaving(m1)]);
    await fixture.storage.releaseMembers(withMembers(mounted, [m0, leaving(m1)]));
    expect(removals()).toMatchObject([{ member: "m1", state: "released" }]);
    const record = join(fixture.recordDirectory, `${volume.handle}.span.json`);
    const ofBefore = readFileSync(record);
    // Another node has no such record.
    unlinkSync(record);
    const both = withMembers(mounted, [m0, m1]);
    expect(await fixture.storage.extend(both, 2 * GIB)).toBe(2 * GIB);
    const { deviceUUID = "", devid = 0 } =
      (await fixture.storage.members(both)).find(({ name }) => name === "m1") ?? {};
    await fixture.storage.unstage(both, mountPath);
    writeFileSync(record, ofBefore);
    // A rebuilt layout says of neither what it is; their devices do.
    const rebuilt = await fixture.storage.stage({ ...withMembers(volume, [m0, m1]), formatted: true }, 0, mountPath);
    const found = [
      { name: "m0", state: "Present" },
      { name: "m1", state: "Present", deviceUUID },
    ];
    const members = await fixture.storage.members(rebuilt);
    expect(members).toHaveLength(2);
    expect(members).toMatchObject(found);
    await fixture.storage.recover(rebuilt);
    expect(removals()).toEqual([]);
    await fixture.storage.unstage(rebuilt, mountPath);
    writeFileSync(record, ofBefore);
    const inside = [
      { ...m0, wasInside: true },
      { ...m1, wasInside: true, reported: { deviceUUID, devid } },
    ];
    const again = await fixture.storage.stage({ ...withMembers(volume, inside), formatted: true }, 0, mountPath);
    expect(await fixture.storage.members(again)).toMatchObject(found);
  });

  it("are named to the kernel by their number: a path that leads to another member's device by then takes none out in its place", async () => {
    const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
    const mounted = await stage([m0, m1]);
    const [path, other] = [`/dev/${deviceOf(m1)}`, `/dev/${deviceOf(m0)}`];
    const swapped = aroundRemoval(
      () => {
        renameSync(path, `${path}.aside`);
        symlinkSync(other, path);
      },
      () => {
        unlinkSync(path);
        renameSync(`${path}.aside`, path);
      },
    );
    const kept = deviceOf(m0);
    await shrink(mounted, [m0, leaving(m1)], swapped);
    expect(devices()).toEqual([kept]);
  });

  it("stay where their device has no valid superblock of theirs, and nothing is recorded", async () => {
    const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
    const mounted = await stage([m0, m1]);
    execFileSync("sync", ["--file-system", mountPath]);
    const { offsetBytes, lengthBytes, magicOffset } = SUPERBLOCK;
    const block = bytesOf(`/dev/${deviceOf(m1)}`, offsetBytes, lengthBytes);
    const torn = Buffer.from(block);
    torn.fill(0, magicOffset, magicOffset + 8);
    restore(`/dev/${deviceOf(m1)}`, torn, offsetBytes);
    await expect(shrink(mounted, [m0, leaving(m1)])).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringContaining("has no superblock of device 2"),
    });
    expect(devices()).toEqual([deviceOf(m0), deviceOf(m1)].sort());
    expect(removals()).toEqual([]);
    restore(`/dev/${deviceOf(m1)}`, block, offsetBytes);
  });

  it("leave as far as the others have room for what they hold: one of two goes, and the other stays", async () => {
    const [m0, m1, m2] = [
      makeMember(fixture, "m0", GIB),
      makeMember(fixture, "m1", 2 * GIB),
      makeMember(fixture, "m2", 2 * GIB),
    ];
    const mounted = await stage([m0, m1, m2]);
    execFileSync("fallocate", ["--length", `${1536 * MIB}`, join(mountPath, "file")]);
    const result = await shrink(mounted, [m0, leaving(m1), leaving(m2)]);
    expect(result).toMatchObject({
      outcome: "FloorReached",
      sizeBytes: 3 * GIB,
      message: expect.stringMatching(/^member m\d \(2Gi\) stays: /),
    });
    expect(result).toMatchObject({ floorBytes: expect.any(Number), usedBytes: expect.any(Number) });
    expect(devices()).toHaveLength(2);
    expect(removals()).toMatchObject([{ state: "released" }]);
  });

  it("leave all but one where three of four are empty, the emptiest first", async () => {
    const m0 = makeMember(fixture, "m0", GIB);
    const others = ["m1", "m3", "m4"].map((name) => makeMember(fixture, name, name === "m4" ? 2 * GIB : GIB));
    const first = await fixture.storage.stage(withMembers(volume, [m0]), 0, mountPath);
    const sum = written("file", 198);
    await fixture.storage.extend(withMembers(first, [m0, ...others]), 5 * GIB);
    const steps: number[] = [];
    const result = await fixture.storage.shrink(
      withMembers(first, [m0, ...others.map(leaving)]),
      GIB,
      makeShrinkControl({ onStep: (sizeBytes) => steps.push(sizeBytes / GIB) }),
    );
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(steps).toEqual([3, 2, 1]);
    expect(devices()).toEqual([deviceOf(m0)]);
    expect(sumOf("file")).toBe(sum);
  });

  it("leave one of two where 262 of 2048 MiB are used, spread over both", async () => {
    const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
    const mounted = await stage([m0, m1]);
    const sums = [1, 2, 3, 4].map((index) => written(`file-${index}`, 65));
    expect(await shrink(mounted, [m0, leaving(m1)])).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(devices()).toEqual([deviceOf(m0)]);
    expect([1, 2, 3, 4].map((index) => sumOf(`file-${index}`))).toEqual(sums);
  });

  it("stay where snapshots may share what they hold; one that holds nothing leaves", async () => {
    const [m0, m1, m2] = [0, 1, 2].map((index) => makeMember(fixture, `m${index}`, GIB));
    if (m0 === undefined || m1 === undefined || m2 === undefined) throw new Error("bug: three members");
    const mounted = await stage([m0, m1, m2]);
    execFileSync("fallocate", ["--length", `${1000 * MIB}`, join(mountPath, "reserved")]);
    const sum = written("kept", 100);
    for (let index = 0; index <= 16; index += 1)
      execFileSync("btrfs", ["subvolume", "snapshot", mountPath, join(mountPath, `s${index}`)], { stdio: "ignore" });
    const result = await shrink(mounted, [m0, leaving(m1), leaving(m2)]);
    expect(result).toMatchObject({ outcome: "FloorReached", message: expect.stringContaining("17 snapshots") });
    expect(result).toMatchObject({ immovable: expect.stringContaining("17 snapshots") });
    expect(await fixture.storage.immovable(mounted)).toContain("17 snapshots and 0 deleted subvolumes");
    expect(devices()).toContain(deviceOf(m1));
    expect(sumOf("kept")).toBe(sum);
    for (let index = 0; index <= 16; index += 1)
      execFileSync("btrfs", ["subvolume", "delete", join(mountPath, `s${index}`)], { stdio: "ignore" });
    execFileSync("btrfs", ["subvolume", "sync", mountPath], { stdio: "ignore" });
    expect(await fixture.storage.immovable(mounted)).toBeUndefined();
    expect(await shrink(mounted, [m0, leaving(m1), leaving(m2)])).not.toHaveProperty("immovable");
    expect(sumOf("kept")).toBe(sum);
  });

  it("stay where an active swapfile is on them, which is named, and nothing is harmed; others leave", async () => {
    const members = [0, 1, 2].map((index) => makeMember(fixture, `m${index}`, GIB));
    const [m0, m1, m2] = members;
    if (m0 === undefined || m1 === undefined || m2 === undefined) throw new Error("bug: three members");
    // Made before the others come: so it is on the first.
    await stage([m0]);
    const sum = written("kept", 40);
    const swapfile = makeSwapfile(40);
    const mounted = await stage(members);
    expect(await fixture.storage.immovable(mounted)).toBeUndefined();
    execFileSync("swapon", [swapfile]);
    const why = `an active swapfile is on it (${swapfile}), and the kernel moves no data of one: swapoff it first`;
    try {
      expect(await fixture.storage.immovable(mounted)).toBe(why);
      expect(await shrink(mounted, [leaving(m0), m1, leaving(m2)])).toMatchObject({
        outcome: "FloorReached",
        sizeBytes: 2 * GIB,
        message: why,
        immovable: why,
      });
      expect(devices()).toEqual([deviceOf(m0), deviceOf(m1)].sort());
      written("more", 20);
    } finally {
      execFileSync("swapoff", [swapfile]);
    }
    expect(await fixture.storage.immovable(mounted)).toBeUndefined();
    expect(await shrink(mounted, [leaving(m0), m1])).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(sumOf("kept")).toBe(sum);
  });

  it("are not taken out where what they hold has no room next to an active swapfile; once it has, that one leaves", async () => {
    const [m0, m1, m2] = [0, 1, 2].map((index) => makeMember(fixture, `m${index}`, GIB));
    if (m0 === undefined || m1 === undefined || m2 === undefined) throw new Error("bug: three members");
    await stage([m0]);
    const swapfile = makeSwapfile(600);
    const mounted = await stage([m0, m1, m2]);
    execFileSync("swapon", [swapfile]);
    try {
      const sum = written("data", 300);
      written("more", 600);
      // By its files alone one of three could go: 1.5 of 2 GiB would be used.
      let asked = 0;
      const counting = aroundRemoval(() => {
        asked += 1;
      });
      const members = [leaving(m0), m1, leaving(m2)];
      expect(await shrink(mounted, members, counting)).toMatchObject({
        outcome: "FloorReached",
        sizeBytes: 3 * GIB,
        message: expect.stringContaining("taking it out safely needs"),
      });
      expect(asked).toBe(0);
      expect(devices()).toHaveLength(3);
      written("after", 20);
      unlinkSync(join(mountPath, "more"));
      unlinkSync(join(mountPath, "after"));
      execFileSync("sync", ["--file-system", mountPath]);
      expect(await shrink(mounted, members)).toMatchObject({ outcome: "FloorReached", sizeBytes: 2 * GIB });
      expect(devices()).toEqual([deviceOf(m0), deviceOf(m1)].sort());
      expect(sumOf("data")).toBe(sum);
      written("last", 20);
    } finally {
      execFileSync("swapoff", [swapfile]);
    }
  });

  it("leave where btrfs has refused another of them for want of space, which stays", async () => {
    const [m0, m1, m2] = [0, 1, 2].map((index) => makeMember(fixture, `m${index}`, GIB));
    if (m0 === undefined || m1 === undefined || m2 === undefined) throw new Error("bug: three members");
    const mounted = await stage([m0, m1, m2]);
    let asked = 0;
    const refusing: Effects = {
      run: async (point, effect) => {
        if (point !== "span/remove-device" || asked++ > 0) return effect();
        const refused = { exitCode: 1, stdout: "", stderr: "ERROR: error removing devid 3: No space left on device" };
        return refused as Awaited<ReturnType<typeof effect>>;
      },
    };
    expect(await shrink(mounted, [m0, leaving(m1), leaving(m2)], refusing)).toMatchObject({
      outcome: "FloorReached",
      sizeBytes: 2 * GIB,
      floorBytes: 2 * GIB,
      message: expect.stringContaining("No space left"),
    });
    expect(devices()).toEqual([deviceOf(m0), deviceOf(m2)].sort());
    expect(asked).toBe(2);
  });
});
