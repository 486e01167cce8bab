// Operations whose filesystem stops answering readings while its commands go on: in each thread of the mount reader, statfs of it waits in
// the kernel. The main thread stays free, another volume's extend is made in the same time, and the operation ends as Hung.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import { runWatched, type WatchedEnd } from "../../../src/agent/storage/btrfs/watched-command.ts";
import type { OpenMount } from "../../../src/agent/storage/filesystem/mount-reader.ts";
import type { MountedLoop, MountedSpan, ShrinkControl } from "../../../src/agent/storage/storage.ts";
import type { Finished } from "../../../src/agent/storage/tools.ts";
import { directEffects, type Effects } from "../../../src/platform/process/effects/effects.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { createHangingMountReader, type HangingMountReader } from "../../harness/mount-reader-under-test.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { eventually } from "../../harness/wait-for.ts";
import { createSpanFixture, leaving, makeMember, makeSpan, type SpanFixture, withMembers } from "./span-fixture.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  type StorageFixture,
} from "./storage-fixture.ts";

type WatchingHost = Parameters<typeof runWatched>[0];

describeReal("a filesystem that stops answering readings", STACK_PARTS, () => {
  let mounts: HangingMountReader;
  let fixture: StorageFixture;
  let well: MountedLoop;
  let ill: MountedLoop;
  /** Before an effect of this name. */
  let before: { readonly point: string; readonly act: () => void } | undefined;

  const effects: Effects = {
    run: (point, effect) => {
      if (point === before?.point) before.act();
      return directEffects.run(point, effect);
    },
  };

  /** Commands that would go on, and be cancelled, for as long as nobody ends them. */
  const ends: (() => void)[] = [];

  beforeEach(async () => {
    mounts = createHangingMountReader();
    before = undefined;
    fixture = createStorageFixture(effects, undefined, undefined, mounts);
    [well, ill] = (await Promise.all([makeVolume(), makeVolume()].map(stage))) as [MountedLoop, MountedLoop];
  });
  afterEach(async () => {
    endAll();
    await mounts.cleanUp();
    fixture.cleanUp();
  });

  const stage = (volume: ReturnType<typeof makeVolume>): Promise<MountedLoop> =>
    fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));

  /** `operation` ends as Hung. A statfs on the main thread would hold up the case without end: only the case releases what hangs. */
  async function expectHung(operation: Promise<unknown>, mountPath: string): Promise<void> {
    const end = operation.then(
      () => "done",
      (error: unknown) => error,
    );
    expect(await fixture.storage.extend(well, 2 * GIB)).toBe(2 * GIB);
    expect(await end).toMatchObject({ code: "Hung", said: expect.stringContaining(mountPath) });
  }

  it("ends an extend before its member has grown, where that has its size already", async () => {
    mounts.hang(ill.mountPath);
    await expectHung(fixture.storage.extend(ill, GIB), ill.mountPath);
    mounts.release();
    await eventually("it to answer", () => mounts.strandedThreads() === 0);
    expect(await fixture.storage.extend(ill, 2 * GIB)).toBe(2 * GIB);
  });

  it("ends an extend that waits for the new size to be seen, and the next one finds that made", async () => {
    before = { point: "extend/resize-filesystem", act: () => mounts.hang(ill.mountPath) };
    const extending = fixture.storage.extend(ill, 2 * GIB);
    await eventually("the resize", () => mounts.isHanging(ill.mountPath));
    before = undefined;
    await expectHung(extending, ill.mountPath);
    mounts.release();
    await eventually("it to answer", () => mounts.strandedThreads() === 0);
    expect(await fixture.storage.extend(ill, 2 * GIB)).toBe(2 * GIB);
  });

  it("ends a fresh reading", async () => {
    mounts.hang(ill.mountPath);
    await expectHung(fixture.storage.freshReading(ill), ill.mountPath);
    mounts.release();
    await eventually("it to answer", () => mounts.strandedThreads() === 0);
    expect(await fixture.storage.freshReading(ill)).toMatchObject({ capacityBytes: GIB });
  });

  it("ends a shrink between two steps, whose member stays as it was", async () => {
    mounts.hang(ill.mountPath);
    await expectHung(fixture.storage.shrink(ill, 512 * MIB, makeShrinkControl()), ill.mountPath);
    expect(await fixture.storage.sizeBytes(ill)).toBe(GIB);
  });

  const endless = (): Promise<Finished> =>
    new Promise((resolve) =>
      ends.push(() => resolve({ commandLine: "btrfs", exitCode: 1, stdout: "", stderr: "cancelled" })),
    );
  const endAll = (): void => {
    for (const end of ends.splice(0)) end();
  };

  /** Its exclusive operation cannot be read, which is how an attempt to cancel is seen: by a warning. */
  const watchIll = (opened: OpenMount, warn: () => void, control: ShrinkControl): Promise<WatchedEnd> => {
    const host = doubleOf<WatchingHost>("WatchingHost", { log: doubleOf<WatchingHost["log"]>("Logger", { warn }) });
    return runWatched(host, { ...ill, fsid: "00000000-dead-4000-8000-000000000000" }, opened, control, endless);
  };

  it("has what runs under watch cancelled half a second after the last reading, before that counts as hung", async () => {
    const opened = await mounts.open(ill);
    const stranded: number[] = [];
    mounts.hang(ill.mountPath);
    const watched = watchIll(opened, () => stranded.push(mounts.strandedThreads()), makeShrinkControl());
    await eventually("the cancel", () => stranded.length > 0);
    expect(stranded[0]).toBe(0);
    endAll();
    expect((await watched).cancelled).toContain("no reading for 500 ms");
    await expect(opened.read()).rejects.toMatchObject({ code: "Hung" });
    opened.close();
  });

  it("has what runs under watch cancelled at once by its caller, before the reading it waits for is late", async () => {
    const opened = await mounts.open(ill);
    const caller = new AbortController();
    let cancels = 0;
    mounts.hang(ill.mountPath);
    const watched = watchIll(opened, () => (cancels += 1), makeShrinkControl({ signal: caller.signal }));
    setImmediate(() => caller.abort("an extend goes first"));
    await eventually("the cancel", () => cancels > 0);
    endAll();
    expect((await watched).cancelled).toBe("it was stopped: an extend goes first");
    opened.close();
  });

  const spanned = async (use: (spans: SpanFixture) => Promise<void>): Promise<void> => {
    const spans = await createSpanFixture(undefined, mounts, effects);
    try {
      await use(spans);
    } finally {
      mounts.release();
      await spans.cleanUp();
    }
  };
  const stageSpan = async (spans: SpanFixture, count: number, sizeBytes = GIB): Promise<MountedSpan> => {
    const members = Array.from({ length: count }, (_, index) => makeMember(spans, `m${index}`, sizeBytes));
    const volume = makeSpan(members);
    const mounted = await spans.storage.stage(volume, 0, spans.mountPathOf(volume));
    await spans.storage.extend(mounted, count * sizeBytes);
    return mounted;
  };

  it("ends an extend of a span, whose members are added once it answers", async () => {
    await spanned(async (spans) => {
      const mounted = await stageSpan(spans, 1);
      const two = withMembers(mounted, [...mounted.members, makeMember(spans, "m9", GIB)]);
      mounts.hang(mounted.mountPath);
      await expectHung(spans.storage.extend(two, 2 * GIB), mounted.mountPath);
      mounts.release();
      await eventually("it to answer", () => mounts.strandedThreads() === 0);
      expect(await spans.storage.extend(two, 2 * GIB)).toBe(2 * GIB);
    });
  });

  it("ends the recovery of a span", async () => {
    await spanned(async (spans) => {
      const mounted = await stageSpan(spans, 1);
      mounts.hang(mounted.mountPath);
      await expectHung(spans.storage.recover(mounted), mounted.mountPath);
    });
  });

  it("has the removal of a member cancelled, which stays in the span", async () => {
    await spanned(async (spans) => {
      const mounted = await stageSpan(spans, 2, 5 * GIB);
      const file = join(mounted.mountPath, "data");
      // Half of it is moved, which takes longer than half a second.
      execFileSync("dd", ["if=/dev/zero", `of=${file}`, "bs=1M", "count=3000", "conv=fsync", "status=none"]);
      const [m0, m1] = mounted.members as readonly [SpanMember, SpanMember];
      const one = withMembers(mounted, [m0, leaving(m1)]);
      before = { point: "span/remove-device", act: () => mounts.hang(mounted.mountPath) };
      const shrinking = spans.storage.shrink(one, 5 * GIB, makeShrinkControl());
      shrinking.catch(() => undefined);
      await eventually("the removal", () => mounts.isHanging(mounted.mountPath));
      await expectHung(shrinking, mounted.mountPath);
      expect(exclusiveOperation(mounted.fsid)).toBe("none");
      mounts.release();
      await eventually("it to answer", () => mounts.strandedThreads() === 0);
      const states = (await spans.storage.members(one)).map(({ name, state }) => [name, state]);
      expect(states).toEqual([
        ["m0", "Present"],
        ["m1", "Present"],
      ]);
    });
  });
});
