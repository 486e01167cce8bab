// Runs inside the virtual machine that test/real/ext4-growth.test.ts starts: a kernel that lets ext4 grow while it is mounted.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { MountedLoop } from "../../src/agent/storage/storage.ts";
import { waitFor } from "../harness/wait-for.ts";
import {
  createStorageFixture,
  MIB,
  makeVolume,
  remount,
  type StorageFixture,
} from "../integration/storage/storage-fixture.ts";
import { startWriter, verifyFiles, type Writer } from "../integration/storage/written-files.ts";

const LIMIT_MS = 240_000;
const SMALL_BYTES = 256 * MIB;
const LARGE_BYTES = 768 * MIB;
/** More than the small size holds: only on the larger filesystem do they all fit. */
const KEPT_FILES = 80;
const FILE_BYTES = 4 * MIB;

describe("ext4 on a loop member", () => {
  let fixture: StorageFixture;
  let volume: MountedLoop;
  let manifest: string;

  beforeAll(async () => {
    fixture = createStorageFixture();
    manifest = join(fixture.directory, "sums");
    const made = makeVolume("ext4");
    volume = await fixture.storage.stage(made, SMALL_BYTES, fixture.mountPathOf(made));
  }, LIMIT_MS);

  afterAll(() => fixture.cleanUp());

  it(
    "grows online under a writer, which never sees a full disk, and keeps every byte",
    async () => {
      const before = await fixture.storage.freshReading(volume);
      const writer = startWriter(volume.mountPath, manifest, { megabytesPerSecond: 20, keptFiles: KEPT_FILES });
      await waitForUse(writer, before.capacityBytes / 2);
      expect(await fixture.storage.extend(volume, LARGE_BYTES)).toBe(LARGE_BYTES);
      const after = await fixture.storage.freshReading(volume);
      expect(after.capacityBytes).toBeGreaterThan(before.capacityBytes + (LARGE_BYTES - SMALL_BYTES) * 0.9);
      await waitForUse(writer, KEPT_FILES * FILE_BYTES * 0.95);
      expect(writer.error()).toBeUndefined();
      await writer.stop();
      volume = await remount(fixture, volume);
      const { files, corrupt } = verifyFiles(volume.mountPath, manifest);
      expect(corrupt).toEqual([]);
      expect(files * FILE_BYTES).toBeGreaterThan(SMALL_BYTES);
      expect(await fixture.storage.sizeBytes(volume)).toBe(LARGE_BYTES);
    },
    LIMIT_MS,
  );

  async function waitForUse(writer: Writer, bytes: number): Promise<void> {
    await waitFor(
      `${bytes} bytes to be used`,
      async () => {
        const { capacityBytes, availableBytes } = await fixture.storage.freshReading(volume);
        return capacityBytes - availableBytes >= bytes || writer.error() !== undefined ? true : undefined;
      },
      { limitMs: LIMIT_MS, intervalMs: 200 },
    );
  }
});
