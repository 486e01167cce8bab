// An ext4 of a thin class, made smaller while it is unmounted, over the real lvmd and real LVM: what is left after each death and each doubt.
// Runs inside the virtual machine that test/real/ext4-offline.test.ts starts.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { readExt4Bytes } from "../../src/agent/storage/filesystem/superblocks.ts";
import type { LvmVolume } from "../../src/agent/storage/storage.ts";
import { StorageError } from "../../src/agent/storage/storage-error.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { type BundleProcess, createBundleProcess } from "../harness/bundle-process.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { isSampled } from "../harness/sample.ts";
import { waitFor } from "../harness/wait-for.ts";
import { type BundledOperation, bundleOperation } from "../integration/storage/bundled-operation.ts";
import { type LvmStorageUnderTest, makeLvmVolume, openLvmStorage } from "../integration/storage/lvm-fixture.ts";
import { MIB, makeShrinkControl } from "../integration/storage/storage-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";
import { createRecorder, sh, writeSettings } from "./lvmd/lvmd-under-test.ts";

const OPERATION = new URL("../integration/storage/run-lvm-operation.ts", import.meta.url);
const CLASSES = `
device-classes:
- { name: thin, volume-group: b, default: true, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 8 } }
- { name: narrow, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: narrow, overprovision-ratio: 40 } }
- { name: thick, volume-group: b, spare-gb: 0 }
`;
const LARGE = 640 * MIB;
const SMALL = 512 * MIB;
const MATRIX_LIMIT_MS = 900_000;
const NO_PASSAGE = "none";
/** After each of these LVM or the filesystem is another; test/real/lvm-crash.test.ts dies before and after all of the agent's. */
const FORWARD = [
  "logical-volume/snapshot",
  "unmounted-shrink/check",
  "unmounted-shrink/resize",
  "unmounted-shrink/record-proven",
  "shrink/reduce-volume",
  "remove/volume",
].map((point) => `${point}/after`);
const BACK = ["record-rolling-back", "merge", "record-rolled-back"].map((step) => `unmounted-shrink/${step}/after`);
/** Before a side effect of lvmd's all is as after the last one; kill.vm.ts dies there, too. */
const isAfter = (passage: string): boolean => passage.endsWith("/after");
/** Of lvmd: what writes over data is died at by every commit; so many commits in a row die at the rest. */
const ALWAYS = /^lvmd-(reduce|merge)\//;
const COMMITS = 2;
const isTaken = (passage: string): boolean => ALWAYS.test(passage) || isSampled(passage, COMMITS);

describe("an ext4 in a thin pool", () => {
  let directory: string;
  let bundled: BundledOperation;
  let lvmd: BundleProcess;
  let socket: string;
  let opened: LvmStorageUnderTest | undefined;
  let volume: LvmVolume;
  let manifest: string;
  const killsAt = [...FORWARD, ...BACK];
  const diedAt: string[] = [];

  beforeAll(async () => {
    sh("vgcreate -qq b /dev/ubda; lvcreate -qq -y -T b/pool -L 2g; lvcreate -qq -y -T b/narrow -L 100m");
    bundled = bundleOperation(OPERATION);
    directory = mkdtempSync(join(tmpdir(), "offline-"));
    const written = writeSettings(directory, createRecorder(directory), CLASSES);
    socket = written.socket;
    mkdirSync(join(directory, "state"), { mode: 0o700 });
    lvmd = createBundleProcess(directory, "lvmd", ["lvmd", ...written.args]);
    await startLvmd({});
    volume = await madeVolume("thin", LARGE);
    manifest = join(directory, "manifest");
    const { storage } = await agent();
    const { mountPath } = await storage.stage(volume, 0, mountPathOf(volume));
    scatterFiles(mountPath, manifest, 54, 9);
    await storage.unstage(volume, mountPath);
  }, MATRIX_LIMIT_MS);

  afterAll(async () => {
    noteDeaths("ext4-offline", { killsAt, diedAt });
    opened?.lvm.stop();
    bundled.remove();
    await lvmd.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  beforeEach(async () => {
    await agent();
  });

  const mountPathOf = ({ handle }: LvmVolume): string => join(directory, "mounts", handle);
  const deviceOf = ({ volumeID }: LvmVolume): string => `/dev/b/${volumeID}`;
  const sizeBytes = (): number => Number(sh(`blockdev --getsize64 ${deviceOf(volume)}`));

  async function startLvmd(environment: Readonly<Record<string, string>>): Promise<void> {
    rmSync(socket, { force: true });
    lvmd.start(environment);
    const serves = () => (sh(`[ -S ${socket} ] && echo yes || true`) === "yes\n" ? true : undefined);
    await waitFor("lvmd to serve", serves, { limitMs: 120_000, intervalMs: 100, otherwise: () => lvmd.log() });
  }

  /** A new one: what an earlier one has seen is gone with it. */
  async function agent(): Promise<LvmStorageUnderTest> {
    opened?.lvm.stop();
    opened = await openLvmStorage(directory, socket, directEffects);
    return opened;
  }

  async function madeVolume(deviceClass: string, sizeBytes: number): Promise<LvmVolume> {
    const made = makeLvmVolume("ext4", deviceClass);
    const { lvm } = await agent();
    const tags = [`tidemark.dev/volume-uid=${made.volumeUID}`];
    const { volumeID: name } = made;
    await lvm.calls.create({ name, deviceClass, sizeBytes, tags, lvcreateOptionClass: "" });
    return made;
  }

  /** One shrink in a process of its own; the points that it has passed. */
  function shrinkInAnother(operation: string, fault: string | undefined): { signal: string | null; passed: string[] } {
    const log = join(directory, "effects");
    writeFileSync(log, "");
    const args = [directory, socket, JSON.stringify(volume), operation, String(SMALL), log];
    const child = spawnSync(process.execPath, [bundled.program, ...args, ...(fault === undefined ? [] : [fault])], {
      encoding: "utf8",
    });
    if (fault === undefined && child.status !== 0) throw new Error(child.stderr);
    return { signal: child.signal, passed: [...new Set(readFileSync(log, "utf8").split("\n").filter(Boolean))] };
  }

  /** On a cold cache. Returns the volume's size. */
  async function expectWhole(): Promise<number> {
    const { storage, recordDirectory } = await agent();
    await storage.stage(volume, 0, mountPathOf(volume));
    expect(verifyFiles(mountPathOf(volume), manifest)).toEqual({ files: 6, corrupt: [] });
    await storage.unstage(volume, mountPathOf(volume));
    sh(`e2fsck -f -n ${deviceOf(volume)}`);
    expect(readExt4Bytes(deviceOf(volume))).toBe(sizeBytes());
    expect(readdirSync(recordDirectory).filter((name) => /shrink|reduction/.test(name))).toEqual([]);
    const present = sh("lvs --noheadings -o lv_name,lv_attr,lv_tags b")
      .trim()
      .split(/\s*\n\s*/);
    expect(present.filter((line) => !/^(pool|narrow) /.test(line)).map((line) => line.split(/[\s,]+/).sort())).toEqual([
      ["Vwi-a-tz--", "tidemark.dev/formatted", `tidemark.dev/volume-uid=${volume.volumeUID}`, volume.volumeID].sort(),
    ]);
    return sizeBytes();
  }

  /** As it was made, for the next. */
  function restore(): void {
    if (sizeBytes() === LARGE) return;
    sh(`lvextend -qq -L ${LARGE}b b/${volume.volumeID}; e2fsck -f -p ${deviceOf(volume)} || [ $? -lt 2 ]`);
    sh(`resize2fs ${deviceOf(volume)}`);
  }

  it(
    "is made smaller, with all that is in it",
    async () => {
      const { storage } = await agent();
      expect(storage.shrinksUnmounted(volume)).toBe(true);
      const result = await storage.shrinkUnmounted(volume, SMALL, makeShrinkControl());
      expect(result).toEqual({ outcome: "Succeeded", sizeBytes: SMALL });
      expect(await expectWhole()).toBe(SMALL);
      restore();
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "is whole wherever the agent dies by SIGKILL on the way, and wherever the next one does",
    async () => {
      const { passed } = shrinkInAnother("shrink-unmounted", undefined);
      const reached = new Set([await expectWhole()]);
      expect(passed).toEqual(expect.arrayContaining(FORWARD));
      for (const passage of FORWARD) {
        restore();
        expect(shrinkInAnother("shrink-unmounted", passage)).toMatchObject({ signal: "SIGKILL" });
        diedAt.push(passage);
        reached.add(await expectWhole().catch((cause: unknown) => failed(passage, cause)));
      }
      restore();
      const half = "unmounted-shrink/resize/after";
      expect(shrinkInAnother("shrink-unmounted", half)).toMatchObject({ signal: "SIGKILL" });
      const { passed: back } = shrinkInAnother("finish-unmounted", undefined);
      expect(back).toEqual(expect.arrayContaining(BACK));
      for (const passage of BACK) {
        expect(shrinkInAnother("shrink-unmounted", half)).toMatchObject({ signal: "SIGKILL" });
        expect(shrinkInAnother("finish-unmounted", passage)).toMatchObject({ signal: "SIGKILL" });
        diedAt.push(passage);
        expect(await expectWhole().catch((cause: unknown) => failed(passage, cause))).toBe(LARGE);
      }
      expect(reached).toEqual(new Set([LARGE, SMALL]));
    },
    MATRIX_LIMIT_MS,
  );

  function failed(passage: string, cause: unknown): never {
    throw new Error(`after the death at ${passage}`, { cause });
  }

  it(
    "is whole wherever lvmd dies by SIGKILL on the way",
    async () => {
      const passed = await shrinkOver(NO_PASSAGE);
      expect(passed.some((passage) => passage.startsWith("lvmd-snapshot/"))).toBe(true);
      killsAt.push(...passed.filter(isAfter));
      for (const passage of passed.filter(isAfter).filter(isTaken)) {
        await shrinkOver(passage);
        diedAt.push(passage);
        await expectWhole().catch((cause: unknown) => failed(passage, cause));
        restore();
      }
    },
    MATRIX_LIMIT_MS,
  );

  /** With an lvmd that dies at this point; the points that it has passed. Another one serves afterwards. */
  async function shrinkOver(passage: string): Promise<string[]> {
    await lvmd.kill();
    const log = join(directory, "lvmd-effects");
    writeFileSync(log, "");
    await startLvmd({
      TIDEMARK_EFFECT_LOG: log,
      ...(passage === NO_PASSAGE ? {} : { TIDEMARK_FAULT: passage }),
    });
    const { storage } = await agent();
    const shrinking = storage.shrinkUnmounted(volume, SMALL, makeShrinkControl());
    if (passage === NO_PASSAGE) expect(await shrinking).toMatchObject({ outcome: "Succeeded" });
    else {
      await shrinking.catch((error: unknown) => expect(error).toBeInstanceOf(StorageError));
      expect((await lvmd.ended()).signal).toBe("SIGKILL");
      await startLvmd({});
    }
    if (passage === NO_PASSAGE) {
      await expectWhole();
      restore();
    }
    return [...new Set(readFileSync(log, "utf8").split("\n").filter(Boolean))];
  }

  it(
    "gets back what a check finds broken on the way",
    async () => {
      expect(shrinkInAnother("shrink-unmounted", "unmounted-shrink/record-guarded/after")).toMatchObject({
        signal: "SIGKILL",
      });
      // The root directory, and most of what the files hold; the superblock stays.
      sh(`debugfs -w -R 'clri <2>' ${deviceOf(volume)} 2>/dev/null`);
      sh(`dd if=/dev/zero of=${deviceOf(volume)} bs=1M seek=64 count=448 conv=notrunc,fsync status=none`);
      expect(spawnSync("e2fsck", ["-f", "-n", deviceOf(volume)]).status).not.toBe(0);
      expect(await expectWhole()).toBe(LARGE);
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "stays as it is where a check finds fault with it before",
    async () => {
      const broken = await madeVolume("thin", LARGE);
      const { storage } = await agent();
      await storage.stage(broken, 0, mountPathOf(broken));
      await storage.unstage(broken, mountPathOf(broken));
      sh(`debugfs -w -R 'clri <8>' ${deviceOf(broken)} 2>/dev/null`);
      const sum = sh(`sha1sum ${deviceOf(broken)}`);
      const result = await storage.shrinkUnmounted(broken, SMALL, makeShrinkControl());
      expect(result).toMatchObject({
        outcome: "Refused",
        sizeBytes: LARGE,
        message: expect.stringContaining("e2fsck"),
      });
      expect(sh(`sha1sum ${deviceOf(broken)}`)).toBe(sum);
      await storage.remove(broken);
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "is not begun without room for the snapshot, in a thick class, or for a reserve that it does not leave",
    async () => {
      const { storage } = await agent();
      const narrow = await madeVolume("narrow", LARGE);
      const thick = await madeVolume("thick", LARGE);
      for (const [other, why] of [
        [narrow, /the snapshot that guards the shrink may take .* of the thin pool, which has/],
        [thick, /no thin pool/],
      ] as const) {
        const { storage: its } = await agent();
        await its.stage(other, 0, mountPathOf(other));
        await its.unstage(other, mountPathOf(other));
        const result = await its.shrinkUnmounted(other, SMALL, makeShrinkControl());
        expect(result).toMatchObject({ outcome: "Refused", sizeBytes: LARGE, message: expect.stringMatching(why) });
        await its.remove(other);
      }
      void storage;
      const { storage: again } = await agent();
      const control = makeShrinkControl({ reserveBytes: () => LARGE });
      expect(await again.shrinkUnmounted(volume, SMALL, control)).toMatchObject({ outcome: "FloorReached" });
      const aborted = AbortSignal.abort("somebody needs it");
      const result = await again.shrinkUnmounted(volume, SMALL, makeShrinkControl({ signal: aborted }));
      expect(result).toMatchObject({ outcome: "Refused", message: expect.stringContaining("somebody needs it") });
      expect(await expectWhole()).toBe(LARGE);
    },
    MATRIX_LIMIT_MS,
  );

  it(
    "is never rolled back once somebody has mounted it since, nor mounted then",
    async () => {
      expect(shrinkInAnother("shrink-unmounted", "unmounted-shrink/resize/after")).toMatchObject({ signal: "SIGKILL" });
      const path = join(directory, "by-hand");
      mkdirSync(path, { recursive: true });
      sh(`mount ${deviceOf(volume)} ${path}; echo kept >${path}/since; umount ${path}`);
      const { storage, recordDirectory } = await agent();
      await expect(storage.stage(volume, 0, mountPathOf(volume))).rejects.toThrow(
        /ShrinkOutcomeUnknown.*mounted since/,
      );
      await expect(storage.finishUnmounted(volume)).rejects.toThrow("ShrinkOutcomeUnknown");
      expect(sh(`mount -o ro ${deviceOf(volume)} ${path}; cat ${path}/since; umount ${path}`)).toBe("kept\n");
      const record = join(recordDirectory, `${volume.volumeID}.unmounted-shrink.json`);
      rmSync(record);
      await expect(storage.stage(volume, 0, mountPathOf(volume))).rejects.toThrow(/ShrinkOutcomeUnknown.*no record/);
      // What a person does who has seen that the filesystem is right.
      const [snapshot = ""] = /before-shrink-\S+/.exec(sh("lvs --noheadings -o lv_name b")) ?? [];
      sh(`lvremove -qq -f b/${snapshot}; lvchange -qq --deltag tidemark.dev/unmounted-shrink b/${volume.volumeID}`);
      execFileSync("e2fsck", ["-f", "-p", deviceOf(volume)], { stdio: "ignore" });
      const { storage: its } = await agent();
      // lvmd learns from LVM's backup of its metadata what others have changed.
      const staged = () => its.stage(volume, 0, mountPathOf(volume)).catch(() => undefined);
      await waitFor("it to be mounted again", staged, {
        limitMs: 120_000,
        intervalMs: 500,
        otherwise: () => lvmd.log(),
      });
      expect(verifyFiles(mountPathOf(volume), manifest)).toEqual({ files: 6, corrupt: [] });
      await opened?.storage.unstage(volume, mountPathOf(volume));
    },
    MATRIX_LIMIT_MS,
  );
});
