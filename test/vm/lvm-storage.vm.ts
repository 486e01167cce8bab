// The agent's storage over the real lvmd and real LVM, thick and thin: the contract of the port, and whole lives of all filesystems with
// checksums. Runs inside the virtual machine that test/real/lvm-storage.test.ts starts.
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { LvmFilesystems } from "../../src/agent/storage/lvm/lvm-storage.ts";
import type { LvmVolume } from "../../src/agent/storage/storage.ts";
import { FS_TYPES } from "../../src/contracts/kinds/filesystem-layout.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { GRAIN_BYTES } from "../builders/device-class.ts";
import { describeStorage, type StorageAdapter } from "../integration/storage/describe-storage.ts";
import { makeLvmVolume, openLvmStorage } from "../integration/storage/lvm-fixture.ts";
import { GIB, MIB, makeShrinkControl, takeDown } from "../integration/storage/storage-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";
import { callsOf, type LvmdUnderTest, sh, startLvmdUnderTest } from "./lvmd/lvmd-under-test.ts";

const CLASSES = `
device-classes:
- { name: thick, volume-group: a, default: true, spare-gb: 0 }
- { name: thin, volume-group: b, spare-gb: 0, type: thin, thin-pool: { name: pool, overprovision-ratio: 2 } }
`;

interface LvmAdapter extends StorageAdapter<LvmVolume> {
  readonly storage: LvmFilesystems;
  readonly directory: string;
}

describe("storage on LVM", () => {
  let lvmd: LvmdUnderTest;
  let calls: ReturnType<typeof callsOf>;

  beforeAll(async () => {
    sh("vgcreate -qq a /dev/ubda; vgcreate -qq b /dev/ubdb; lvcreate -qq -y -T b/pool -L 8g");
    lvmd = await startLvmdUnderTest(CLASSES);
    calls = callsOf(lvmd);
  });
  afterAll(() => lvmd.stop());

  async function createAdapter(deviceClass: string): Promise<LvmAdapter> {
    const directory = mkdtempSync(join(tmpdir(), "storage-"));
    const socketPath = join(lvmd.directory, "s/lvmd.sock");
    const opened = await openLvmStorage(directory, socketPath, directEffects);
    const provided: LvmVolume[] = [];
    return {
      ...opened,
      directory,
      grainBytes: GRAIN_BYTES,
      makeVolume: () => makeLvmVolume("btrfs", deviceClass),
      renamed: (volume, volumeID) => ({ ...volume, volumeID }),
      provide: async (volume, sizeBytes) => {
        provided.push(volume);
        const tags = [`tidemark.dev/volume-uid=${volume.volumeUID}`];
        await calls.create(volume.volumeID, sizeBytes, deviceClass, { tags });
      },
      cleanUp: async () => {
        opened.lvm.stop();
        takeDown(directory, join(directory, "none"));
        for (const { volumeID } of provided) await calls.remove(volumeID, deviceClass).catch(() => undefined);
      },
    };
  }

  describe.each(["thick", "thin"])("in a %s class", (deviceClass) => {
    describe("keeps the contract: it", () => describeStorage(() => createAdapter(deviceClass)));

    describe("keeps every byte", () => {
      let adapter: LvmAdapter;

      beforeEach(async () => {
        adapter = await createAdapter(deviceClass);
      });
      afterEach(() => adapter.cleanUp());

      it.each(FS_TYPES)("of %s, made, grown, released, mounted again and removed", async (fsType) => {
        const { storage } = adapter;
        const volume = makeLvmVolume(fsType, deviceClass);
        const manifest = join(adapter.directory, "manifest");
        mkdirSync(adapter.directory, { recursive: true });
        await adapter.provide(volume, GIB);
        const mounted = await storage.stage(volume, 0, adapter.mountPathOf(volume));
        scatterFiles(mounted.mountPath, manifest, 40, 4);
        expect(await storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
        const { capacityBytes } = await storage.freshReading(mounted);
        expect(capacityBytes).toBeGreaterThan(1.9 * GIB);
        expect(await storage.trim(mounted)).toBeGreaterThan(0);
        if (fsType === "btrfs") {
          const result = await storage.shrink(mounted, GIB, makeShrinkControl());
          expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
          expect((await calls.get(volume.volumeID, deviceClass)).sizeBytes).toBe(GIB);
        }
        await storage.unstage(volume, mounted.mountPath);
        // As after a reboot of a node whose LVM activates nothing.
        sh(`lvchange -an ${deviceClass === "thin" ? "b" : "a"}/${volume.volumeID}`);
        const again = await storage.stage(volume, 0, mounted.mountPath);
        expect(verifyFiles(again.mountPath, manifest)).toEqual({ files: 10, corrupt: [] });
        await storage.unstage(volume, mounted.mountPath);
        await storage.remove(volume);
        expect(await storage.sizeBytes(volume)).toBeUndefined();
      });
    });
  });

  it("gives back to the pool what a filesystem does not hold any more", async () => {
    const adapter = await createAdapter("thin");
    const volume = makeLvmVolume("ext4", "thin");
    // What lvmd tells of it is as old as its last report.
    const mappedPercent = (): number => Number(sh(`lvs --noheadings -o data_percent b/${volume.volumeID}`));
    try {
      await adapter.provide(volume, GIB);
      const mounted = await adapter.storage.stage(volume, 0, adapter.mountPathOf(volume));
      scatterFiles(mounted.mountPath, join(adapter.directory, "manifest"), 60, 60);
      const before = mappedPercent();
      expect(before).toBeGreaterThan(30);
      expect(await adapter.storage.trim(mounted)).toBeGreaterThan(256 * MIB);
      expect(mappedPercent()).toBeLessThan(before / 2);
    } finally {
      await adapter.cleanUp();
    }
  });
});
