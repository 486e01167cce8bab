// What runs inside the machine that loses its power while an unmounted ext4 of a thin pool shrinks: lvmd and the agent's storage end what
// the last power cut has left, e2fsck finds nothing, every record that was acknowledged is verified; then it is written, unmounted, and
// shrinks until the next cut. Its argument: MachineSettings as JSON. Bundled by power-cycles.ts.
import { readdirSync } from "node:fs";
import { readExt4State } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { LvmStorageUnderTest } from "../../integration/storage/lvm-fixture.ts";
import { makeShrinkControl } from "../../integration/storage/storage-fixture.ts";
import {
  device,
  GROUP,
  makeVolume,
  openDisks,
  recordOf,
  removeAndEnd,
  startLvmdAndStorage,
  volumeBytes,
  volumeOf,
} from "./lvm-in-machine.ts";
import { EXT4_FULL_BYTES, EXT4_SHRUNK_BYTES } from "./machine-settings.ts";
import { fail, RECORDS, say, scatter, settings, sh, verifyRecords, waitForTheCut } from "./node-in-machine.ts";

const SCATTERED_FILES = 16;

const volume = volumeOf("ext4");

async function run(): Promise<void> {
  // LVM activates what it can at boot, or it does not.
  openDisks(settings.boot % 2 === 0);
  const opened = await startLvmdAndStorage();
  if (settings.boot === 0) makeVolume(EXT4_FULL_BYTES);
  else await finish(opened);
  await useMounted(opened);
  say("shrinking");
  const result = await opened.storage.shrinkUnmounted(volume, EXT4_SHRUNK_BYTES, makeShrinkControl());
  if (result.outcome !== "Succeeded" || result.sizeBytes !== EXT4_SHRUNK_BYTES) throw new Error(JSON.stringify(result));
  expectEnded();
  say("shrunk");
  if (settings.last) await end(opened);
  else await waitForTheCut();
}

/** As the next agent's start, which mounts nothing before. */
async function finish({ storage, lvm }: LvmStorageUnderTest): Promise<void> {
  say(`left ${recordOf("unmounted-shrink")?.phase ?? "nothing"}`);
  await storage.finishUnmounted(volume);
  await lvm.calls.activate(volume.deviceClass, volume.volumeID);
  expectEnded();
  const filesystem = readExt4State(device);
  // What was mounted when the power went has its journal to replay.
  if (filesystem?.isClean === true) checkFilesystem();
  say("finished");
}

/** One size or the other, the filesystem within its volume, and nothing is left of how it came about. */
function expectEnded(): void {
  const filesystemBytes = readExt4State(device)?.sizeBytes ?? 0;
  const lvBytes = volumeBytes();
  if (![EXT4_FULL_BYTES, EXT4_SHRUNK_BYTES].includes(filesystemBytes) || filesystemBytes > lvBytes)
    throw new Error(`the filesystem has ${filesystemBytes} bytes, its volume ${lvBytes}`);
  const volumes = sh(`lvs --noheadings --separator : -o lv_name,lv_tags ${GROUP}`).split("\n");
  const others = volumes.map((line) => line.trim()).filter((line) => line !== "" && line !== "pool:");
  const records = readdirSync(RECORDS).filter((name) => /shrink|reduction/.test(name));
  const isUntagged = others.every((line) => line.startsWith(volume.volumeID) && !/unmounted-shrink|guards/.test(line));
  if (others.length !== 1 || !isUntagged || records.length > 0)
    throw new Error(`it is not ended: ${others.join("; ")}; ${records.join(", ")}`);
}

function checkFilesystem(): void {
  try {
    sh(`e2fsck -f -n ${device} 2>&1`);
  } catch (error) {
    throw new Error(`e2fsck: ${(error as { stdout?: string }).stdout ?? ""}`, { cause: error });
  }
}

/** Mounted as its pod has it, verified, written anew at its full size, and let go of. */
async function useMounted({ storage, mountPathOf }: LvmStorageUnderTest): Promise<void> {
  const mounted = await storage.stage(volume, 0, mountPathOf(volume));
  verifyRecords(mounted.mountPath);
  await storage.recover(mounted);
  const reached = await storage.extend(mounted, EXT4_FULL_BYTES);
  if (reached !== EXT4_FULL_BYTES) throw new Error(`extended to ${reached}`);
  if (!settings.last) scatter(mounted.mountPath, SCATTERED_FILES, EXT4_SHRUNK_BYTES);
  await storage.unstage(volume, mounted.mountPath);
  checkFilesystem();
}

async function end(opened: LvmStorageUnderTest): Promise<void> {
  const { storage, mountPathOf } = opened;
  checkFilesystem();
  const { mountPath } = await storage.stage(volume, 0, mountPathOf(volume));
  verifyRecords(mountPath);
  await storage.unstage(volume, mountPath);
  await removeAndEnd(opened, volume);
}

run().catch(fail);
