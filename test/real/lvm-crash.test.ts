// An agent ended by SIGKILL around each side effect of the storage on logical volumes, as a clean run passes them: the next one finishes,
// nothing is lost, and no reduction is left that could still be carried out.
import { execFileSync, spawn } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { readExt4Bytes } from "../../src/agent/storage/filesystem/superblocks.ts";
import type { LvmVolume, MountedLvm } from "../../src/agent/storage/storage.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { type BundledOperation, bundleOperation } from "../integration/storage/bundled-operation.ts";
import {
  createLvmFixture,
  type LvmFixture,
  type LvmStorageUnderTest,
  makeLvmVolume,
  openLvmStorage,
} from "../integration/storage/lvm-fixture.ts";
import { GIB, makeShrinkControl } from "../integration/storage/storage-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";

const OPERATION = new URL("../integration/storage/run-lvm-operation.ts", import.meta.url);
const FILES = 40;
const KEPT_FILES = 10;
/** Some pass thirty points, each of which is died at. */
const LIMIT_MS = 900_000;

type Storage = LvmStorageUnderTest["storage"];

/** One way to use the storage, and what must be so once it has been finished. */
interface Use {
  readonly operation: string;
  readonly sizeBytes: number;
  /** Default: a btrfs of the thick class. */
  readonly volume?: () => LvmVolume;
  /** What it must pass, at least. */
  readonly passes: readonly string[];
  /** Before it: on a volume that is there. */
  prepare(volume: LvmVolume): Promise<void>;
  /** What the next agent does. */
  finish(storage: Storage, volume: LvmVolume): Promise<void>;
}

describeReal("storage on logical volumes after kill -9", LOOP_PARTS, () => {
  const deaths = deathRecord("lvm-crash");
  let bundled: BundledOperation;
  let fixture: LvmFixture;

  beforeAll(() => {
    bundled = bundleOperation(OPERATION);
  });
  afterAll(() => {
    deaths.note();
    bundled.remove();
  });
  beforeEach(async () => {
    fixture = await createLvmFixture();
  });
  afterEach(() => fixture.cleanUp());

  const manifestOf = ({ handle }: LvmVolume): string => join(fixture.directory, `${handle}.manifest`);
  const bytesOf = ({ volumeID, deviceClass }: LvmVolume): number =>
    fixture.lvmd.lvm.volumeOf(deviceClass, volumeID).sizeBytes;

  async function stageWithData(volume: LvmVolume): Promise<MountedLvm> {
    const mounted = await fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
    scatterFiles(mounted.mountPath, manifestOf(volume), FILES, FILES / KEPT_FILES);
    return mounted;
  }

  async function foundAgain(storage: Storage, volume: LvmVolume): Promise<MountedLvm> {
    const mounted = await storage.find(volume, fixture.mountPathOf(volume));
    if (mounted === undefined) throw new Error("it is no longer mounted");
    await storage.recover(mounted);
    return mounted;
  }

  /** On a cold cache: what is read comes from the volume. */
  async function expectWhole(storage: Storage, volume: LvmVolume, sizeBytes: number): Promise<void> {
    const mountPath = fixture.mountPathOf(volume);
    await storage.unstage(volume, mountPath);
    const mounted = await storage.stage(volume, 0, mountPath);
    expect(verifyFiles(mountPath, manifestOf(volume))).toEqual({ files: KEPT_FILES, corrupt: [] });
    expect((await storage.freshReading(mounted)).capacityBytes).toBe(sizeBytes);
    expect(bytesOf(volume)).toBe(sizeBytes);
    for (const directory of [fixture.recordDirectory, fixture.directory])
      expect(readdirSync(directory).filter((name) => name.endsWith(".reduction.json"))).toEqual([]);
  }

  const growTo = async (storage: Storage, volume: LvmVolume, sizeBytes: number): Promise<void> => {
    const mounted = await foundAgain(storage, volume);
    expect(await storage.extend(mounted, sizeBytes)).toBe(sizeBytes);
    await expectWhole(storage, volume, sizeBytes);
  };

  const unmountedExt4 = async (volume: LvmVolume): Promise<void> => {
    const { mountPath } = await fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
    scatterFiles(mountPath, manifestOf(volume), KEPT_FILES, 1);
    await fixture.storage.unstage(volume, fixture.mountPathOf(volume));
  };

  /** One or the other, and nothing is left of how it came about. */
  async function expectShrunkOrAsBefore(storage: Storage, volume: LvmVolume): Promise<void> {
    const { path, sizeBytes } = fixture.lvmd.lvm.volumeOf("thin", volume.volumeID);
    expect(readExt4Bytes(path)).toBe(sizeBytes);
    execFileSync("e2fsck", ["-f", "-n", path], { stdio: "ignore" });
    expect([GIB, 2 * GIB]).toContain(sizeBytes);
    reached.add(sizeBytes);
    await storage.stage(volume, 0, fixture.mountPathOf(volume));
    expect(verifyFiles(fixture.mountPathOf(volume), manifestOf(volume))).toEqual({ files: KEPT_FILES, corrupt: [] });
    expect(fixture.lvmd.lvm.volumes()).toMatchObject([{ name: volume.volumeID }]);
    expect(fixture.lvmd.lvm.volumeOf("thin", volume.volumeID).tags).toEqual([
      `tidemark.dev/volume-uid=${volume.volumeUID}`,
      "tidemark.dev/formatted",
    ]);
    expect(readdirSync(fixture.recordDirectory)).toEqual([`${volume.volumeID}.member.json`]);
  }

  const reached = new Set<number>();

  const uses: Record<string, Use> = {
    "a stage": {
      operation: "stage",
      sizeBytes: 0,
      passes: [
        "stage/activate-volume",
        "stage/record-formatting",
        "stage/tag-volume",
        "stage/format",
        "stage/record-mounted",
        "stage/mount",
      ],
      prepare: ({ volumeID }) => fixture.lvmd.lvm.setActive(volumeID, false),
      finish: async (storage, volume) => {
        await storage.stage(volume, 0, fixture.mountPathOf(volume));
        scatterFiles(fixture.mountPathOf(volume), manifestOf(volume), FILES, FILES / KEPT_FILES);
        await expectWhole(storage, volume, 2 * GIB);
      },
    },
    "an extend": {
      operation: "extend",
      sizeBytes: 3 * GIB,
      passes: ["extend/grow-volume", "extend/resize-filesystem"],
      prepare: async (volume) => void (await stageWithData(volume)),
      finish: (storage, volume) => growTo(storage, volume, 3 * GIB),
    },
    "a shrink": {
      operation: "shrink",
      sizeBytes: GIB,
      passes: [
        "shrink/resize-filesystem",
        "shrink/record-reduction",
        "shrink/record-beside-lvmd",
        "shrink/reduce-volume",
        "shrink/forget-reduction",
        "shrink/forget-beside-lvmd",
      ],
      prepare: async (volume) => void (await stageWithData(volume)),
      finish: async (storage, volume) => {
        const mounted = await foundAgain(storage, volume);
        const result = await storage.shrink(mounted, GIB, makeShrinkControl());
        expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
        await expectWhole(storage, volume, GIB);
      },
    },
    "an extend after a reduction that was not answered": {
      operation: "extend",
      sizeBytes: 3 * GIB,
      passes: ["shrink/cancel-reduce", "shrink/forget-reduction", "shrink/forget-beside-lvmd", "extend/grow-volume"],
      prepare: async (volume) => {
        const mounted = await stageWithData(volume);
        fixture.lvmd.refusals.set("ReduceLV", { code: status.UNAVAILABLE, details: "gone" });
        await expect(fixture.storage.shrink(mounted, GIB, makeShrinkControl())).rejects.toThrow("gone");
        fixture.lvmd.refusals.clear();
      },
      finish: (storage, volume) => growTo(storage, volume, 3 * GIB),
    },
    "a shrink of an unmounted ext4": {
      operation: "shrink-unmounted",
      sizeBytes: GIB,
      volume: () => makeLvmVolume("ext4", "thin"),
      passes: [
        "unmounted-shrink/reset-mount-count",
        "unmounted-shrink/record-begun",
        "stage/tag-volume",
        "logical-volume/snapshot",
        "unmounted-shrink/record-guarded",
        "unmounted-shrink/check",
        "unmounted-shrink/resize",
        "unmounted-shrink/record-proven",
        "shrink/reduce-volume",
        "remove/volume",
        "stage/untag-volume",
        "unmounted-shrink/forget",
      ],
      prepare: unmountedExt4,
      finish: async (storage, volume) => {
        await storage.finishUnmounted(volume);
        await expectShrunkOrAsBefore(storage, volume);
      },
    },
    "what takes back a shrink of an unmounted ext4": {
      operation: "finish-unmounted",
      sizeBytes: 0,
      volume: () => makeLvmVolume("ext4", "thin"),
      passes: [
        "unmounted-shrink/record-rolling-back",
        "unmounted-shrink/merge",
        "unmounted-shrink/record-rolled-back",
        "unmounted-shrink/forget",
      ],
      prepare: async (volume) => {
        await unmountedExt4(volume);
        const { signal } = await runOperation(
          { operation: "shrink-unmounted", sizeBytes: GIB },
          volume,
          "unmounted-shrink/resize/after",
        );
        expect(signal).toBe("SIGKILL");
      },
      finish: async (storage, volume) => {
        await storage.stage(volume, 0, fixture.mountPathOf(volume));
        await storage.unstage(volume, fixture.mountPathOf(volume));
        await expectShrunkOrAsBefore(storage, volume);
        expect(bytesOf(volume)).toBe(2 * GIB);
      },
    },
    "an unstage": {
      operation: "unstage",
      sizeBytes: 0,
      passes: ["unstage/unmount"],
      prepare: async (volume) => void (await stageWithData(volume)),
      finish: async (storage, volume) => {
        await storage.unstage(volume, fixture.mountPathOf(volume));
        expect(await storage.find(volume, fixture.mountPathOf(volume))).toBeUndefined();
        await expectWhole(storage, volume, 2 * GIB);
      },
    },
    "a removal": {
      operation: "remove",
      sizeBytes: 0,
      passes: ["remove/volume", "remove/reduction-record", "remove/reduction-beside-lvmd", "remove/record"],
      prepare: async (volume) => {
        await stageWithData(volume);
        await fixture.storage.unstage(volume, fixture.mountPathOf(volume));
      },
      finish: async (storage, volume) => {
        await storage.remove(volume);
        expect(await storage.sizeBytes(volume)).toBeUndefined();
        expect(readdirSync(fixture.recordDirectory)).toEqual([]);
      },
    },
  };

  const finishWhereverKilled = async (_name: string, use: Use): Promise<void> => {
    const passages = await passagesOf(use);
    expect(passages).toEqual(
      expect.arrayContaining(use.passes.flatMap((point) => [`${point}/before`, `${point}/after`])),
    );
    for (const passage of passages) {
      const volume = await prepared(use);
      const { signal, stderr } = await runOperation(use, volume, passage);
      if (signal !== "SIGKILL") throw new Error(`${use.operation} was not ended at ${passage}: ${stderr}`);
      deaths.killedAt(passage);
      const next = await openLvmStorage(fixture.directory, fixture.lvmd.socketPath, directEffects);
      try {
        await use.finish(next.storage, volume);
      } catch (error) {
        throw new Error(`after ${use.operation} was killed at ${passage}`, { cause: error });
      } finally {
        next.lvm.stop();
      }
      await putAway(volume);
    }
  };

  it.each(Object.entries(uses))("finishes %s, wherever it was killed", finishWhereverKilled, LIMIT_MS);

  it("passes every effect point of shrinks of unmounted filesystems that there is", () => {
    const listed = JSON.parse(readFileSync("test/effect-points.json", "utf8")) as string[];
    const passed = new Set(Object.values(uses).flatMap(({ passes }) => passes));
    expect(listed.filter((point) => point.startsWith("unmounted-shrink/") && !passed.has(point))).toEqual([]);
  });

  it("has both ended and taken back shrinks of unmounted filesystems", () => {
    expect(reached).toEqual(new Set([GIB, 2 * GIB]));
  });

  async function prepared(use: Use): Promise<LvmVolume> {
    const volume = use.volume?.() ?? makeLvmVolume();
    await fixture.provide(volume, 2 * GIB);
    await use.prepare(volume);
    return volume;
  }

  /** Each once, in the order of a run in which nobody dies. */
  async function passagesOf(use: Use): Promise<string[]> {
    const volume = await prepared(use);
    const { code, stderr, log } = await runOperation(use, volume, undefined);
    if (code !== 0) throw new Error(stderr);
    await putAway(volume);
    return [...new Set(readFileSync(log, "utf8").split("\n").filter(Boolean))];
  }

  async function putAway(volume: LvmVolume): Promise<void> {
    await fixture.storage.unstage(volume, fixture.mountPathOf(volume));
    await fixture.storage.remove(volume);
  }

  /** Not with spawnSync: lvmd answers from this very process. */
  function runOperation(
    { operation, sizeBytes }: Pick<Use, "operation" | "sizeBytes">,
    volume: LvmVolume,
    fault: string | undefined,
  ): Promise<{ code: number | null; signal: NodeJS.Signals | null; stderr: string; log: string }> {
    const log = join(fixture.directory, "effects");
    writeFileSync(log, "");
    const { directory, lvmd } = fixture;
    const args = [directory, lvmd.socketPath, JSON.stringify(volume), operation, String(sizeBytes), log];
    const child = spawn(process.execPath, [bundled.program, ...args, ...(fault === undefined ? [] : [fault])]);
    let stderr = "";
    child.stderr.on("data", (text: Buffer) => {
      stderr += text.toString();
    });
    return new Promise((resolve) => child.once("close", (code, signal) => resolve({ code, signal, stderr, log })));
  }
});
