// The process ended by SIGKILL around each side effect on a span, on real btrfs with a real member driver: the next process
// finishes or undoes, no byte is lost, and no member is wiped, added or formatted that should not be.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../src/agent/member-drivers/span-member.ts";
import { exclusiveOperation } from "../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { MountedSpan, SpanVolume } from "../../src/agent/storage/storage.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { eventually } from "../harness/wait-for.ts";
import { type BundledOperation, bundleOperation } from "../integration/storage/bundled-operation.ts";
import {
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  type SpanFixture,
  withMembers,
} from "../integration/storage/span-fixture.ts";
import { GIB, makeShrinkControl } from "../integration/storage/storage-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";

const ATTEMPTS_LIMIT = 10;
const OPERATION = new URL("../integration/storage/run-span-operation.ts", import.meta.url);
const MEMBER_POINTS = ["make-member-directory", "stage-member", "publish-member"];
const LEAVING_POINTS = ["unpublish-member", "unstage-member", "remove-member-directory"];

describeReal("after kill -9 in the middle of work on a span", LOOP_PARTS, () => {
  const deaths = deathRecord("span-crash");
  let bundled: BundledOperation;
  let fixture: SpanFixture;
  let m0: SpanMember;
  let m1: SpanMember;
  let volume: SpanVolume;
  let mountPath: string;
  let manifest: string;

  // Bundled once: each case starts it as a process of its own.
  beforeAll(() => {
    bundled = bundleOperation(OPERATION);
  });
  afterAll(() => {
    deaths.note();
    bundled.remove();
  });

  beforeEach(async () => {
    fixture = await createSpanFixture();
    m0 = makeMember(fixture, "m0", GIB);
    m1 = makeMember(fixture, "m1", GIB);
    volume = makeSpan([m0, m1]);
    mountPath = fixture.mountPathOf(volume);
    manifest = join(fixture.directory, "manifest");
  });
  afterEach(() => fixture.cleanUp());

  function start(of: SpanVolume, operation: string, sizeBytes: number, ...fault: string[]) {
    const args = [fixture.directory, JSON.stringify(of), operation, String(sizeBytes), ...fault];
    const child = spawn(process.execPath, [bundled.program, ...args]);
    let said = "";
    child.stderr.on("data", (text: Buffer) => {
      said += text.toString();
    });
    const ended = new Promise<NodeJS.Signals | null>((resolve) =>
      child.once("exit", (_code, signal) => resolve(signal)),
    );
    return { child, ended, said: () => said };
  }

  /** Runs one operation in a process that the fault ends. */
  async function runUntil(fault: string, of: SpanVolume, operation: string, sizeBytes: number): Promise<void> {
    const { ended, said } = start(of, operation, sizeBytes, fault);
    if ((await ended) !== "SIGKILL") throw new Error(`${operation} was not ended at ${fault}: ${said()}`);
    deaths.killedAt(fault);
  }

  async function stageWithData(members: readonly SpanMember[]): Promise<MountedSpan> {
    const mounted = await fixture.storage.stage(withMembers(volume, members.slice(0, 1)), 0, mountPath);
    const whole = withMembers(mounted, members);
    await fixture.storage.extend(whole, members.length * GIB);
    scatterFiles(mountPath, manifest, 40, 4);
    return whole;
  }

  async function recoverAfterRestart(members: readonly SpanMember[]): Promise<MountedSpan> {
    const mounted = await fixture.storage.find(withMembers(volume, members), mountPath);
    if (mounted === undefined) throw new Error("it is no longer mounted");
    await fixture.storage.recover(mounted);
    return mounted;
  }

  /** Read from the devices again, by members that are all there and no other. */
  async function expectWhole(members: readonly SpanMember[], sizeBytes: number): Promise<void> {
    const of = withMembers(volume, members);
    await fixture.storage.unstage(of, mountPath);
    expect(existsSync(join(fixture.deviceDirectory, volume.handle))).toBe(false);
    const again = await fixture.storage.stage(of, 0, mountPath);
    const { files, corrupt } = verifyFiles(mountPath, manifest);
    expect({ files, corrupt }).toEqual({ files: 10, corrupt: [] });
    expect((await fixture.storage.freshReading(again)).capacityBytes).toBe(sizeBytes);
    const present = (await fixture.storage.members(again)).filter(({ state }) => state === "Present");
    expect(present.map(({ name }) => name)).toEqual(members.map(({ name }) => name));
  }

  it.each(
    [
      ...MEMBER_POINTS,
      "make-record-directory",
      "record-formatting",
      "format",
      "record-formatted",
      "record-mounted",
      "make-mount-point",
      "mount",
    ].flatMap((step) => [`span/${step}/before`, `span/${step}/after`]),
  )("at %s, the next stage ends with one filesystem on its first member", async (fault) => {
    await runUntil(fault, withMembers(volume, [m0]), "stage", 0);
    await stageWithData([m0]);
    await expectWhole([m0], GIB);
  });

  it.each([...MEMBER_POINTS, "add-device"].flatMap((step) => [`span/${step}/before`, `span/${step}/after`]))(
    "at %s, the member is added once",
    async (fault) => {
      const mounted = await stageWithData([m0]);
      await runUntil(fault, withMembers(mounted, [m0, m1]), "extend", 2 * GIB);
      const recovered = await recoverAfterRestart([m0, m1]);
      expect(await fixture.storage.extend(recovered, 2 * GIB)).toBe(2 * GIB);
      await expectWhole([m0, m1], 2 * GIB);
    },
  );

  it.each(["expand-member", "resize-device"].flatMap((step) => [`span/${step}/before`, `span/${step}/after`]))(
    "at %s, the member is used to its end",
    async (fault) => {
      const mounted = await stageWithData([m0]);
      const larger = { ...m0, sizeBytes: 2 * GIB, capacityBytes: 2 * GIB };
      fixture.driver.growVolume(m0.volume?.volumeHandle ?? "", 2 * GIB);
      await runUntil(fault, withMembers(mounted, [larger]), "extend", 2 * GIB);
      const recovered = await recoverAfterRestart([larger]);
      expect(await fixture.storage.extend(recovered, 2 * GIB)).toBe(2 * GIB);
      await expectWhole([larger], 2 * GIB);
    },
  );

  it.each(
    ["record-leaving", "remove-device", "wipe", "forget-device", ...LEAVING_POINTS, "record-released"].flatMap(
      (step) => [`span/${step}/before`, `span/${step}/after`],
    ),
  )("at %s, the member is taken out, wiped and given back once", async (fault) => {
    const members = [m0, leaving(m1)];
    await stageWithData([m0, m1]);
    await runUntil(fault, withMembers(volume, members), "shrink", GIB);
    const recovered = await recoverAfterRestart(members);
    expect(await fixture.storage.shrink(recovered, GIB, makeShrinkControl())).toEqual({
      outcome: "Succeeded",
      sizeBytes: GIB,
    });
    expect(await fixture.storage.members(recovered)).toMatchObject([{ name: "m0" }, { name: "m1", state: "Removed" }]);
    fixture.driver.deleteVolume(m1.volume?.volumeHandle ?? "");
    await expectWhole([m0], GIB);
  });

  it.each(
    ["unmount", "forget-device", ...LEAVING_POINTS].flatMap((step) => [`span/${step}/before`, `span/${step}/after`]),
  )("at %s, the next unstage lets go of all", async (fault) => {
    const mounted = await stageWithData([m0, m1]);
    await runUntil(fault, mounted, "unstage", 0);
    await fixture.storage.unstage(volume, mountPath);
    for (const member of [m0, m1]) expect(fixture.deviceOf(member)).toBeUndefined();
    await expectWhole([m0, m1], 2 * GIB);
  });

  it.each(["span/remove-record/before", "span/remove-record/after"])(
    "at %s, the next one forgets the span",
    async (fault) => {
      const mounted = await stageWithData([m0]);
      await fixture.storage.unstage(mounted, mountPath);
      await runUntil(fault, withMembers(volume, [m0]), "remove", 0);
      await fixture.storage.remove(withMembers(volume, [m0]));
      expect(existsSync(join(fixture.recordDirectory, `${volume.handle}.span.json`))).toBe(false);
    },
  );

  it.each(["span/unmount-stranger/before", "span/unmount-stranger/after"])(
    "at %s, no process takes the copy of a member for the member",
    async (fault) => {
      const of = withMembers(volume, [m0]);
      await fixture.storage.unstage(await stageWithData([m0]), mountPath);
      const copy = makeMember(fixture, "copy", GIB);
      execFileSync("cp", ["--sparse=always", fixture.fileOf(m0), fixture.fileOf(copy)]);
      const elsewhere = join(fixture.directory, "mounts", "copy");
      mkdirSync(elsewhere, { recursive: true });
      execFileSync("losetup", ["--find", fixture.fileOf(copy)]);
      execFileSync("mount", [fixture.deviceOf(copy) ?? "", elsewhere]);
      await runUntil(fault, of, "stage", 0);
      await expect(fixture.storage.stage(of, 0, mountPath)).rejects.toMatchObject({ code: "WrongFilesystem" });
      execFileSync("umount", [elsewhere]);
      await fixture.storage.unstage(of, mountPath);
      await fixture.storage.stage(of, 0, mountPath);
      await expectWhole([m0], GIB);
    },
  );

  it.each(["cancel-remove", "record-staying"].flatMap((step) => [`span/${step}/before`, `span/${step}/after`]))(
    "at %s, the member stays or goes as a whole",
    async (fault) => {
      const [big, other] = [makeMember(fixture, "m2", 3 * GIB), makeMember(fixture, "m3", 3 * GIB)];
      const mounted = withMembers(await stageWithData([m0]), [m0, big, other]);
      await fixture.storage.extend(mounted, 7 * GIB);
      scatterFiles(mountPath, manifest, 150, 1);
      const members = [m0, leaving(big), other];
      await runUntil(fault, withMembers(volume, members), "stopped-shrink", 4 * GIB);
      const recovered = await recoverAfterRestart(members);
      expect(exclusiveOperation(volume.fsid)).toBe("none");
      expect(await fixture.storage.shrink(recovered, 4 * GIB, makeShrinkControl())).toMatchObject({
        outcome: "Succeeded",
      });
      expect(verifyFiles(mountPath, manifest).corrupt).toEqual([]);
    },
  );

  it("while the kernel goes on with a dead process' removal, recover stops it, and the member stays or goes as a whole", async () => {
    const other = makeMember(fixture, "m2", 3 * GIB);
    const mounted = await stageWithData([m0]);
    let members: readonly SpanMember[] = [m0];
    let killed = false;
    for (let attempt = 1; !killed && attempt <= ATTEMPTS_LIMIT; attempt += 1) {
      // One that was out before it was seen in the kernel does not come back.
      const big = makeMember(fixture, `big${attempt}`, 3 * GIB);
      await fixture.storage.extend(withMembers(mounted, [m0, big, other]), 7 * GIB);
      members = [m0, leaving(big), other];
      scatterFiles(mountPath, manifest, 200, 20);
      const { child, ended } = start(withMembers(volume, members), "shrink", 4 * GIB);
      const isSeen = (): boolean => child.exitCode !== null || exclusiveOperation(volume.fsid) === "device remove";
      await eventually("the removal in the kernel", isSeen, { intervalMs: 1 });
      child.kill("SIGKILL");
      killed = (await ended) === "SIGKILL";
    }
    expect(killed).toBe(true);
    const recovered = await recoverAfterRestart(members);
    expect(exclusiveOperation(volume.fsid)).toBe("none");
    expect(await fixture.storage.shrink(recovered, 4 * GIB, makeShrinkControl())).toMatchObject({
      outcome: "Succeeded",
    });
    const { corrupt } = verifyFiles(mountPath, manifest);
    expect(corrupt).toEqual([]);
  });
});
