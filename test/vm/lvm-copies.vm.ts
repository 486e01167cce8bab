// Snapshots, restores and clones on a real thin pool, with the whole stack: the embedded control plane, the operator, the agent and lvmd as
// processes. Runs inside the virtual machine that test/real/lvm-copies.test.ts starts.
import { copyFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { MOUNT_ANNOTATION } from "../../demo/stand-ins/kubelet.ts";
import { FS_TYPES } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { isSampled } from "../harness/sample.ts";
import type { Stack } from "../harness/stack.ts";
import { createVolume, deleteVolume, NAMESPACE, type TestVolume } from "../harness/volume.ts";
import { waitFor } from "../harness/wait-for.ts";
import { startWriter } from "../integration/storage/written-files.ts";
import { doom, MORTALS, passagesOn } from "./copies/deaths.ts";
import { connectSnapshots, type Snapshots } from "./copies/snapshots.ts";
import {
  classOf,
  copyOf,
  createCopy,
  deviceBytes,
  expectFiles,
  forgetCaches,
  linesOf,
  nothingIsLeft,
  startThinStack,
  uuidOn,
  writeFiles,
} from "./copies/thin-stack.ts";
import { sh } from "./lvmd/lvmd-under-test.ts";

const LIMIT_MS = 600_000;
const FILES = 8;
const LOAD = { megabytesPerSecond: 8, keptFiles: 1000, synced: true };
/** What the load has written by the snapshot. */
const LOADED_FILES = 2;

let stack: Stack;
let snapshots: Snapshots;

beforeAll(async () => {
  stack = await startThinStack(FS_TYPES);
  snapshots = connectSnapshots(stack);
}, LIMIT_MS);
afterAll(async () => {
  snapshots?.close();
  await stack?.close();
}, LIMIT_MS);

const manifestOf = (name: string): string => join(stack.directory, `${name}.manifest`);

/** lvs(8), "lv_attr": the second character is "r" for one that is only read. Throws where there is none. */
async function attributesOf(name: string): Promise<string> {
  const { status: told } = (await stack.client.get(LOGICAL_VOLUMES, { name })) ?? {};
  return sh(`lvs --noheadings -o lv_attr ${stack.lvm?.group}/${told?.volumeID}`).trim();
}

describe.each(FS_TYPES)("a volume of %s in a thin pool", (fsType) => {
  const [atSnapshot, loadAtSnapshot, later] = ["at-snapshot", "load", "later"].map((what) => `${fsType}-${what}`);

  /** Its files as they were at the snapshot, taken under load, are in one manifest; they were written again since. */
  async function snapshotUnderLoad(source: TestVolume): Promise<string> {
    const load = manifestOf(`${fsType}-all-load`);
    writeFiles(source.mountPath, manifestOf(atSnapshot ?? ""), FILES);
    writeFileSync(load, "");
    const writer = startWriter(source.mountPath, load, LOAD);
    await waitFor("the load", () => (linesOf(load).length >= LOADED_FILES ? true : undefined));
    copyFileSync(load, manifestOf(loadAtSnapshot ?? ""));
    const { snapshotId, sizeBytes, readyToUse } = await snapshots.create(source.handle);
    expect({ sizeBytes, readyToUse }).toEqual({ sizeBytes: GIB, readyToUse: true });
    const loaded = linesOf(load).length;
    await waitFor("the load to go on", () => (linesOf(load).length > loaded ? true : undefined));
    expect(writer.error()).toBeUndefined();
    await writer.stop();
    writeFiles(source.mountPath, manifestOf(later ?? ""), FILES);
    return snapshotId;
  }

  it(
    "is restored from a snapshot and cloned, each beside it on one node, and its copies outlive it",
    async () => {
      const storageClassName = classOf(fsType);
      const source = await createVolume(stack, `${fsType}-source`, { request: "1Gi", storageClassName });
      const snapshotId = await snapshotUnderLoad(source);
      const same = await createCopy(stack, `${fsType}-same`, { of: snapshotId, fsType, sizeBytes: GIB });
      const larger = await createCopy(stack, `${fsType}-larger`, { of: snapshotId, fsType, sizeBytes: 2 * GIB });
      const clone = await createCopy(stack, `${fsType}-clone`, { of: source.handle, fsType, sizeBytes: GIB });
      const all = [source, same, larger, clone];
      // All are mounted now, on one node.
      expect(all.map(uuidOn)).toEqual(all.map(({ fsid }) => fsid));
      expect(new Set(all.map(({ fsid }) => fsid)).size).toBe(all.length);
      const isAsItShould = (): void => {
        forgetCaches();
        for (const copy of [same, larger]) {
          expectFiles(copy, manifestOf(atSnapshot ?? ""));
          expectFiles(copy, manifestOf(loadAtSnapshot ?? ""));
        }
        expectFiles(clone, manifestOf(later ?? ""));
        expectFiles(clone, manifestOf(loadAtSnapshot ?? ""));
      };
      isAsItShould();
      expectFiles(source, manifestOf(later ?? ""));
      writeFileSync(join(same.mountPath, "own"), "own");
      for (const other of [source, larger, clone]) expect(existsSync(join(other.mountPath, "own"))).toBe(false);

      await deleteVolume(stack, source);
      isAsItShould();
      expect(await attributesOf(snapshotId)).toMatch(/^Vr/);
      await snapshots.remove(snapshotId);
      isAsItShould();
      for (const copy of [same, larger, clone]) await deleteVolume(stack, copy);
      await nothingIsLeft(stack);
    },
    LIMIT_MS,
  );
});

describe("a raw block volume in a thin pool", () => {
  const BYTES = 64 * MIB;
  const write = ({ mountPath }: TestVolume): string => {
    sh(`dd if=/dev/urandom of=${mountPath} bs=1M count=${BYTES / MIB} oflag=direct conv=notrunc status=none`);
    return sumOf(mountPath);
  };
  const sumOf = (path: string): string => sh(`head -c ${BYTES} ${path} | sha256sum`);

  it(
    "is restored from a snapshot and cloned to the last byte, also to a larger size, and when the source is gone",
    async () => {
      const claim = { storageClassName: classOf("btrfs"), volumeMode: "Block" } as const;
      const source = await createVolume(stack, "raw-source", { ...claim, request: String(BYTES) });
      const atSnapshot = write(source);
      const { snapshotId } = await snapshots.create(source.handle);
      const later = write(source);
      expect(later).not.toBe(atSnapshot);
      const copy = (name: string, of: string, bytes: number): Promise<TestVolume> =>
        createVolume(stack, name, { ...claim, request: String(bytes), dataSource: copyOf(of) });
      const same = await copy("raw-same", snapshotId, BYTES);
      const clone = await copy("raw-clone", source.handle, BYTES);
      await deleteVolume(stack, source);
      const larger = await copy("raw-larger", snapshotId, 2 * BYTES);
      const copies = [same, larger, clone];
      expect(copies.map(deviceBytes)).toEqual([BYTES, 2 * BYTES, BYTES]);
      await snapshots.remove(snapshotId);
      forgetCaches();
      expect(copies.map(({ mountPath }) => sumOf(mountPath))).toEqual([atSnapshot, atSnapshot, later]);
      for (const one of copies) await deleteVolume(stack, one);
      await nothingIsLeft(stack);
    },
    LIMIT_MS,
  );
});

describe("a copy on its way from its claim to its pod", () => {
  /** What writes into the filesystem is died at by every commit; so many commits in a row die at the rest. */
  const ALWAYS = /^(stage\/rename-btrfs|extend\/resize-filesystem)\//;
  const COMMITS = 2;
  const isTaken = (passage: string): boolean => ALWAYS.test(passage) || isSampled(passage, COMMITS);
  /** Of a way on which nobody dies, at least. */
  const POINTS = {
    agent: [
      "logical-volume/snapshot",
      "stage/rename-btrfs",
      "stage/untag-volume",
      "stage/record-mounted",
      "stage/mount",
      "extend/resize-filesystem",
    ],
    lvmd: [
      "lvmd-snapshot/lvcreate",
      "lvmd-snapshot/make-read-only",
      "lvmd-snapshot/lvresize",
      "lvmd-snapshot/activate",
      "lvmd-tags/lvchange",
    ],
  };

  it(
    "arrives as it was at the snapshot, wherever agent and lvmd die",
    async () => {
      const manifest = manifestOf("mortal");
      const source = await createVolume(stack, "mortal", { request: "1Gi", storageClassName: classOf("btrfs") });
      let lives = 0;
      const live = async (): Promise<void> => {
        lives += 1;
        writeFiles(source.mountPath, manifest, FILES);
        const { snapshotId } = await snapshots.create(source.handle);
        expect(await attributesOf(snapshotId)).toMatch(/^Vr/);
        writeFiles(source.mountPath, manifestOf("mortal-later"), FILES);
        const copy = await createCopy(stack, `mortal-${lives}`, {
          of: snapshotId,
          fsType: "btrfs",
          sizeBytes: 2 * GIB,
        });
        expect(uuidOn(copy)).toBe(copy.fsid);
        expectFiles(copy, manifest);
        await letGo(copy);
        sh(`btrfs check --readonly ${copy.memberPath} 2>&1`);
        await deleteVolume(stack, copy);
        await snapshots.remove(snapshotId);
      };
      const passages = await passagesOn(stack, live);
      for (const mortal of MORTALS)
        expect(passages[mortal]).toEqual(
          expect.arrayContaining(POINTS[mortal].flatMap((point) => [`${point}/before`, `${point}/after`])),
        );
      const killsAt = MORTALS.flatMap((mortal) => passages[mortal]);
      const diedAt: string[] = [];
      for (const mortal of MORTALS) passages[mortal] = passages[mortal].filter(isTaken);
      while (passages.agent.length + passages.lvmd.length > 0) {
        const fates = await Promise.all(MORTALS.map((mortal) => doom(stack, mortal, passages[mortal])));
        try {
          await live();
        } catch (error) {
          const deaths = fates.flatMap((fate) => fate.deaths).join(", ");
          throw new Error(`after deaths at ${deaths}\n${stack.tellLogs()}`, { cause: error });
        } finally {
          for (const fate of fates) await fate.end();
        }
        // What nobody has come by in this life comes in the next one.
        expect(fates.flatMap(({ deaths }) => deaths)).not.toEqual([]);
        diedAt.push(...fates.flatMap(({ deaths }) => deaths));
        for (const [index, mortal] of MORTALS.entries())
          passages[mortal] = passages[mortal].slice(fates[index]?.deaths.length);
      }
      noteDeaths("lvm-copies", { killsAt, diedAt });
      expect(killsAt.filter((passage) => isTaken(passage) && !diedAt.includes(passage))).toEqual([]);
      await deleteVolume(stack, source);
      await nothingIsLeft(stack);
    },
    LIMIT_MS,
  );

  /** Its pod goes: it is mounted nowhere. */
  async function letGo({ name, memberPath }: TestVolume): Promise<void> {
    const claim = { namespace: NAMESPACE, name };
    const metadata = { annotations: { [MOUNT_ANNOTATION]: "false" } };
    await stack.client.mergePatch("test/let-go", PERSISTENT_VOLUME_CLAIMS, claim, { metadata });
    const isOpen = (): boolean => sh(`lvs --noheadings -o lv_device_open ${memberPath}`).includes("open");
    await waitFor(`${name} to be let go of`, () => (isOpen() ? undefined : true), {
      otherwise: () => stack.tellLogs(),
    });
  }
});
