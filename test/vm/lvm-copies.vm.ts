// Snapshots and copies of mounted filesystems by the real lvmd on a real thin pool, and the agent's first stage of them. Runs inside the
// virtual machine that test/real/lvm-copies.test.ts starts.
import { closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { tagsOf } from "../../src/agent/logical-volume/volume-tags.ts";
import type { LvmVolume } from "../../src/agent/storage/storage.ts";
import { FS_TYPES } from "../../src/api/filesystem-layout.ts";
import { volumeHandleOf } from "../../src/api/identity.ts";
import { directEffects } from "../../src/process/effects.ts";
import { type LvmStorageUnderTest, makeLvmVolume, openLvmStorage } from "../integration/storage/lvm-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";
import { GIB, type LvmdUnderTest, PLAIN_PREFIX, sh, startLvmdUnderTest } from "./lvmd/lvmd-under-test.ts";

const CLASSES = `${PLAIN_PREFIX}device-classes:
- { name: thin, volume-group: a, spare-gb: 0, default: true, type: thin, thin-pool: { name: pool, overprovision-ratio: 4 } }
`;

describe("copies on a thin pool", () => {
  let lvmd: LvmdUnderTest;
  let agent: LvmStorageUnderTest;
  let directory: string;

  beforeAll(async () => {
    sh("vgcreate -qq a /dev/ubda; lvcreate -qq -y -T a/pool -L 6g");
    lvmd = await startLvmdUnderTest(CLASSES);
    directory = mkdtempSync(join(tmpdir(), "copies-"));
    mkdirSync(join(directory, "manifests"));
    agent = await openLvmStorage(directory, lvmd.socket, directEffects);
  });
  afterAll(async () => {
    agent.lvm.stop();
    await lvmd.stop();
  });

  const provide = ({ volumeID, volumeUID }: LvmVolume, sizeBytes: number) =>
    agent.lvm.calls.create({
      name: volumeID,
      deviceClass: "thin",
      tags: [`tidemark.dev/volume-uid=${volumeUID}`],
      sizeBytes,
      lvcreateOptionClass: "",
    });

  function copyOf(source: LvmVolume, copy: LvmVolume, sizeBytes: number, accessType = "rw"): Promise<void> {
    const name = volumeHandleOf(copy.volumeUID);
    const metadata = { name: accessType === "ro" ? name.replace("fs-", "snap-") : name };
    const spec = { nodeName: "a", deviceClass: "thin", size: "1Gi", source: source.handle };
    const tags = tagsOf({ apiVersion: "", kind: "LogicalVolume", metadata, spec });
    const request = { name: copy.volumeID, deviceClass: "thin", tags, sizeBytes, accessType };
    return agent.lvm.calls.createSnapshot({ ...request, sourceVolume: source.volumeID });
  }

  const stage = (volume: LvmVolume) => agent.storage.stage(volume, GIB, agent.mountPathOf(volume));

  it.each(FS_TYPES)(
    "of %s: snapshot, restore to a larger size, clone, and the end of each",
    async (fsType) => {
      const [source, snapshot, restored, clone] = [1, 2, 3, 4].map(() => makeLvmVolume(fsType, "thin"));
      if (!source || !snapshot || !restored || !clone) throw new Error("four volumes were made");
      const manifest = join(directory, "manifests", fsType);
      await provide(source, GIB);
      const { mountPath } = await stage(source);
      scatterFiles(mountPath, manifest, 20, 2);
      sh(`sync --file-system ${mountPath}`);
      const file = openSync(join(mountPath, "last"), "w");
      writeSync(file, "fsynced");
      fsyncSync(file);
      closeSync(file);
      await copyOf(source, snapshot, 0, "ro");
      writeFileSync(join(mountPath, "later"), "later");
      await copyOf(snapshot, restored, 2 * GIB);
      await copyOf(source, clone, GIB);

      for (const copy of [restored, clone]) {
        const mounted = await stage(copy);
        await agent.storage.recover(mounted);
        verifyFiles(mounted.mountPath, manifest);
        expect(sh(`cat ${mounted.mountPath}/last`)).toBe("fsynced");
        expect(sh(`wipefs --noheadings --output UUID ${mounted.device}`).trim()).toBe(copy.fsid);
      }
      const { capacityBytes } = await agent.storage.freshReading(await stage(restored));
      expect(capacityBytes).toBeGreaterThan(1.8 * GIB);
      expect(sh(`ls ${agent.mountPathOf(restored)}`)).not.toContain("later");
      verifyFiles(mountPath, manifest);

      await agent.storage.unstage(source, mountPath);
      await agent.storage.remove(source);
      await agent.lvm.calls.wipeAndRemove("thin", snapshot.volumeID);
      verifyFiles(agent.mountPathOf(restored), manifest);
      for (const copy of [restored, clone]) {
        await agent.storage.unstage(copy, agent.mountPathOf(copy));
        await agent.storage.remove(copy);
      }
      expect(sh("lvs --noheadings -o lv_name a").trim()).toBe("pool");
    },
    240_000,
  );
});
