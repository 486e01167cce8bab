// Members that are taken out while somebody writes: no byte is lost, the filesystem is never forced read-only, and whoever needs the
// room goes first.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../src/agent/member-drivers/span-member.ts";
import { exclusiveOperation } from "../../src/agent/storage/btrfs/exclusive-operation.ts";
import { mountAt } from "../../src/agent/storage/filesystem/devices-and-mounts.ts";
import { spanRecordPath } from "../../src/agent/storage/span/span-host.ts";
import type { MountedSpan, ShrinkResult, SpanVolume } from "../../src/agent/storage/storage.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { eventually } from "../harness/wait-for.ts";
import {
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  type SpanFixture,
  withMembers,
} from "../integration/storage/span-fixture.ts";
import { GIB, MIB, makeShrinkControl } from "../integration/storage/storage-fixture.ts";
import {
  scatterFiles,
  startWriter,
  verifyFiles,
  type Writer,
  type WriterSettings,
} from "../integration/storage/written-files.ts";

const ATTEMPTS_LIMIT = 20;

describeReal("a member that is taken out under a writer", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let volume: SpanVolume;
  let m0: SpanMember;
  let m1: SpanMember;
  let mounted: MountedSpan;
  let manifest: string;
  let writers: Writer[];

  beforeEach(async () => {
    fixture = await createSpanFixture();
    m0 = makeMember(fixture, "m0", 3 * GIB);
    m1 = makeMember(fixture, "m1", 2 * GIB);
    volume = makeSpan([m0, m1]);
    manifest = join(fixture.directory, "manifest");
    writers = [];
    const first = await fixture.storage.stage(withMembers(volume, [m0]), 0, fixture.mountPathOf(volume));
    mounted = withMembers(first, [m0, m1]);
    await fixture.storage.extend(mounted, 5 * GIB);
  });
  afterEach(async () => {
    for (const writer of writers) await writer.stop();
    await fixture.cleanUp();
  });

  function write(settings: WriterSettings): Writer {
    const writer = startWriter(mounted.mountPath, manifest, settings);
    writers.push(writer);
    return writer;
  }

  const remove = (control = makeShrinkControl()): Promise<ShrinkResult> =>
    fixture.storage.shrink(withMembers(mounted, [m0, leaving(m1)]), 3 * GIB, control);

  async function expectWhole(members: readonly SpanMember[]): Promise<void> {
    expect(mountAt(mounted.mountPath)?.readOnly).toBe(false);
    const of = withMembers(volume, members);
    await fixture.storage.unstage(of, mounted.mountPath);
    await fixture.storage.stage(of, 0, mounted.mountPath);
    const { files, corrupt } = verifyFiles(mounted.mountPath, manifest);
    expect(files).toBeGreaterThan(0);
    expect(corrupt).toEqual([]);
    execFileSync("btrfs", ["scrub", "start", "-B", mounted.mountPath], { stdio: "pipe" });
  }

  it("gives its data to the others, and none is lost", async () => {
    scatterFiles(mounted.mountPath, manifest, 250, 4);
    const writer = write({ megabytesPerSecond: 60, keptFiles: 20 });
    let result = await remove();
    for (let attempt = 1; result.outcome === "Cancelled" && attempt < ATTEMPTS_LIMIT; attempt += 1)
      result = await remove();
    await writer.stop();
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: 3 * GIB });
    expect(writer.error()).toBeUndefined();
    await expectWhole([m0]);
  });

  it("stays where a writer would outgrow the others, and the writer never notices", async () => {
    scatterFiles(mounted.mountPath, manifest, 200, 1);
    let reserveBytes = 256 * MIB;
    const writer = write({ megabytesPerSecond: 400, keptFiles: 400 });
    const removing = remove(makeShrinkControl({ reserveBytes: () => reserveBytes }));
    reserveBytes = 1200 * MIB;
    const result = await removing;
    await writer.stop();
    expect(["Cancelled", "FloorReached"]).toContain(result.outcome);
    expect(result.sizeBytes).toBe(5 * GIB);
    expect(writer.error()).toBeUndefined();
    expect(exclusiveOperation(volume.fsid)).toBe("none");
    await expectWhole([m0, m1]);
  });

  it("is cancelled in the middle by its signal, and leaves nothing running", async () => {
    scatterFiles(mounted.mountPath, manifest, 150, 1);
    const controller = new AbortController();
    let ended = false;
    const removing = remove(makeShrinkControl({ signal: controller.signal })).finally(() => {
      ended = true;
    });
    await eventually("the removal", () => ended || exclusiveOperation(volume.fsid) === "device remove");
    controller.abort(new Error("an extend goes first"));
    expect((await removing).outcome).toBe("Cancelled");
    expect(exclusiveOperation(volume.fsid)).toBe("none");
    // Whatever becomes of its device from now on is no end of this removal.
    const record = readFileSync(spanRecordPath(fixture, volume), "utf8");
    expect(JSON.parse(record)).toMatchObject({ state: "mounted", removals: [] });
    await expectWhole([m0, m1]);
  });

  it("is repacked first where only the places of its data hold it up", async () => {
    // Nearly all was written, and most of it deleted: every chunk of both members is allocated, and nearly empty.
    scatterFiles(mounted.mountPath, manifest, 520, 40);
    const result = await remove();
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: 3 * GIB });
    await expectWhole([m0]);
  });
});
