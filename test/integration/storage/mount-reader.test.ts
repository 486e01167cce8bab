// Readings of mounted filesystems while some of them never answer: FUSE mounts whose other end is not read.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { type ReadableMount, readOnce } from "../../../src/agent/storage/filesystem/mount-reader.ts";
import type { ThreadedMountReader } from "../../../src/agent/storage/filesystem/threaded-mount-reader.ts";
import { openReader } from "../../../src/agent/storage/in-threads/read-filesystem.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { mountReaderUnderTest } from "../../harness/mount-reader-under-test.ts";
import { describeReal, STACK_PARTS } from "../../harness/real-parts.ts";
import { eventually } from "../../harness/wait-for.ts";
import { coverWithHungMount, type HungMount } from "../agent/hung-mount.ts";
import { createStorageFixture, GIB, makeVolume, type StorageFixture } from "./storage-fixture.ts";

/** Of one mount; the machine may be busy. */
const STRANDED_MAX = 32;

describeReal("readings of mounted filesystems", STACK_PARTS, () => {
  let fixture: StorageFixture;
  let mounts: ThreadedMountReader;
  let well: MountedLoop;
  let hung: HungMount[];

  beforeEach(async () => {
    mounts = mountReaderUnderTest();
    fixture = createStorageFixture(undefined, undefined, undefined, mounts);
    hung = [];
    const volume = makeVolume();
    well = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
  });
  afterEach(async () => {
    await release();
    await mounts.stop();
    fixture.cleanUp();
  });

  const release = async (): Promise<void> => {
    for (const mount of hung.splice(0)) await mount.release();
  };
  function hangingMounts(count: number): ReadableMount[] {
    return Array.from({ length: count }, (_, index) => {
      const mountPath = join(fixture.directory, "ill", String(hung.length + index));
      mkdirSync(mountPath, { recursive: true });
      return { mountPath, fsType: "ext4" as const, fsid: "" };
    }).map((mount) => {
      hung.push(coverWithHungMount(mount.mountPath));
      return mount;
    });
  }
  const codeOf = (asked: Promise<unknown>): Promise<unknown> =>
    asked.then(
      () => "answered",
      (error: unknown) => error,
    );
  const hangs = ({ mountPath }: ReadableMount) => ({ code: "Hung", said: expect.stringContaining(mountPath) });

  it("are what a reader on the main thread reads", async () => {
    const direct = openReader(well);
    const { sampledAtMs: _sampledAtMs, takenMs, ...figures } = direct.read();
    direct.close();
    const reading = await readOnce(mounts, well);
    expect(reading).toMatchObject(figures);
    expect(reading.takenMs).toBeGreaterThan(takenMs);
  });

  it("leave no file open", async () => {
    const left = (): string[] =>
      readdirSync("/proc/self/fd").filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).includes(well.fsid);
        } catch {
          return false;
        }
      });
    const opened = await mounts.open(well);
    const asked = [opened.read(), opened.read()];
    expect(left().length).toBeGreaterThan(0);
    opened.close();
    await Promise.all(asked);
    await eventually("its files to be closed", () => left().length === 0);
    await expect(opened.read()).rejects.toThrow("after it was closed");
  });

  it("are never of what is mounted over the filesystem later", async () => {
    const opened = await mounts.open(well);
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", well.mountPath]);
    await expect(opened.read()).rejects.toMatchObject({
      code: "CommandFailed",
      said: expect.stringContaining("is no longer mounted"),
    });
    execFileSync("umount", [well.mountPath]);
    expect((await opened.read()).capacityBytes).toBe(GIB);
    opened.close();
  });

  it("of one that does not answer end with its name, and wait for nothing else", async () => {
    const [ill] = hangingMounts(1) as [ReadableMount];
    const startedMs = performance.now();
    const asked = codeOf(mounts.open(ill));
    // Behind it, and none of its matter.
    expect((await readOnce(mounts, well)).capacityBytes).toBe(GIB);
    expect(await fixture.storage.extend(well, 2 * GIB)).toBe(2 * GIB);
    expect(await asked).toMatchObject(hangs(ill));
    expect(performance.now() - startedMs).toBeGreaterThan(1900);
  });

  it("of one that does not answer take one thread, however many ask for them, until it answers", async () => {
    const [ill] = hangingMounts(1) as [ReadableMount];
    const many = await Promise.all([ill, ill, ill].map((each) => codeOf(mounts.open(each))));
    for (const error of many) expect(error).toMatchObject(hangs(ill));
    expect(mounts.strandedThreads()).toBe(1);
    expect(await codeOf(mounts.open(ill))).toMatchObject(hangs(ill));
    expect(mounts.strandedThreads()).toBe(1);
    await release();
    await eventually("its thread to end", () => mounts.strandedThreads() === 0);
    expect((await readOnce(mounts, { ...ill, mountPath: ill.mountPath })).capacityBytes).toBeGreaterThan(0);
  });

  it("go on in another thread for a mount whose own was left behind", async () => {
    const opened = await mounts.open(well);
    const [ill] = hangingMounts(1) as [ReadableMount];
    expect(await codeOf(mounts.open(ill))).toMatchObject(hangs(ill));
    // The new thread has not read it before, and sees another filesystem in its place.
    execFileSync("mount", ["-t", "tmpfs", "tmpfs", well.mountPath]);
    await expect(opened.read()).rejects.toMatchObject({ said: expect.stringContaining("is no longer mounted") });
    execFileSync("umount", [well.mountPath]);
    expect((await opened.read()).capacityBytes).toBe(GIB);
    opened.close();
  });

  it("end where more filesystems hang than threads may be left behind, which is unhealthy, and go on when they answer", async () => {
    const ill = hangingMounts(STRANDED_MAX + 2);
    const errors = await Promise.all(ill.map((each) => codeOf(mounts.open(each))));
    for (const error of errors) expect(error).toMatchObject({ code: "Hung" });
    expect(mounts.strandedThreads()).toBe(STRANDED_MAX + 1);
    expect(mounts.unhealthy()).toContain(`${STRANDED_MAX + 1} threads hang`);
    expect(await codeOf(mounts.open(well))).toMatchObject({
      code: "Hung",
      said: expect.stringContaining("is not read"),
    });
    await release();
    await eventually("them to answer", () => mounts.strandedThreads() === 0);
    expect(mounts.unhealthy()).toBeUndefined();
    expect((await readOnce(mounts, well)).capacityBytes).toBe(GIB);
  });
});
