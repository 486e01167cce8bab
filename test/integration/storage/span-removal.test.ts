// Taking members out of a span: what is recorded before the kernel is asked, which device is named to it, and what nothing begins for.
// Real btrfs over a real CSI node plugin.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, renameSync, symlinkSync, unlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member/span-member.ts";
import type { MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import type { Effects } from "../../../src/process/effects.ts";
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

  it("all stay when only those that leave as well would have room for what they hold", async () => {
    const [m0, m1, m2] = [
      makeMember(fixture, "m0", GIB),
      makeMember(fixture, "m1", 2 * GIB),
      makeMember(fixture, "m2", 2 * GIB),
    ];
    const mounted = await stage([m0, m1, m2]);
    execFileSync("fallocate", ["--length", `${1536 * MIB}`, join(mountPath, "file")]);
    expect(await shrink(mounted, [m0, leaving(m1), leaving(m2)])).toMatchObject({
      outcome: "FloorReached",
      sizeBytes: 5 * GIB,
      message: expect.stringMatching(/^member m2 .* stays: .*unallocated/),
    });
    expect(devices()).toHaveLength(3);
    expect(removals()).toEqual([]);
  });
});
