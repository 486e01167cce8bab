// What runs inside the machine that loses its power: it looks at what the last power cut has left, before anything may mend it; then lvmd
// and the agent's storage recover, every record that was acknowledged is verified, and it shrinks under a writer until the next cut. Its
// argument: MachineSettings as JSON. Bundled by power-cycles.ts.
import type { MountedLvm } from "../../../src/agent/storage/storage.ts";
import type { LvmStorageUnderTest } from "../../integration/storage/lvm-fixture.ts";
import { makeShrinkControl } from "../../integration/storage/storage-fixture.ts";
import { checkBtrfs, endBytesOf } from "./btrfs-in-machine.ts";
import {
  device,
  makeVolume,
  openDisks,
  recordOf,
  removeAndEnd,
  startLvmdAndStorage,
  volumeBytes,
  volumeOf,
} from "./lvm-in-machine.ts";
import { FULL_BYTES, SHRUNK_BYTES } from "./machine-settings.ts";
import { fail, say, scatter, settings, sh, startWriter, verifyRecords, waitForTheCut } from "./node-in-machine.ts";

const SCATTERED_FILES = 24;

const volume = volumeOf("btrfs");

async function run(): Promise<void> {
  openDisks(true);
  if (settings.boot > 0) lookAtWhatIsLeft();
  const opened = await startLvmdAndStorage();
  if (settings.boot === 0) makeVolume(FULL_BYTES);
  const mounted = await recover(opened);
  verifyRecords(mounted.mountPath);
  if (settings.last) await end(opened, mounted);
  else await shrinkUnderWriter(opened, mounted);
}

/** Before anything is mounted: the filesystem ends within its volume, and is whole. */
function lookAtWhatIsLeft(): void {
  const lvBytes = volumeBytes();
  const endBytes = endBytesOf(device);
  say(`left ${JSON.stringify({ lvBytes, endBytes, reduction: recordOf("reduction") })}`);
  if (!(endBytes <= lvBytes)) throw new Error(`the filesystem ends at ${endBytes}, its volume at ${lvBytes}`);
  checkBtrfs(device, true);
}

/** As the agent's reconciler: staged, recovered, and then as large as its volume, with no reduction left that could still be carried out. */
async function recover({ storage, mountPathOf }: LvmStorageUnderTest): Promise<MountedLvm> {
  const mounted = await storage.stage(volume, 0, mountPathOf(volume));
  await storage.recover(mounted);
  const { capacityBytes } = await storage.freshReading(mounted);
  const lvBytes = volumeBytes();
  const reduction = recordOf("reduction");
  if (capacityBytes !== lvBytes || reduction !== null)
    throw new Error(`recovered: capacity ${capacityBytes}, volume ${lvBytes}, ${JSON.stringify(reduction)}`);
  say(`recovered ${lvBytes}`);
  return mounted;
}

async function shrinkUnderWriter({ storage }: LvmStorageUnderTest, mounted: MountedLvm): Promise<void> {
  const reached = await storage.extend(mounted, FULL_BYTES);
  if (reached !== FULL_BYTES) throw new Error(`extended to ${reached}`);
  say("extended");
  scatter(mounted.mountPath, SCATTERED_FILES, SHRUNK_BYTES);
  startWriter(mounted.mountPath);
  say("shrinking");
  const result = await storage.shrink(mounted, SHRUNK_BYTES, makeShrinkControl());
  say(`shrunk ${JSON.stringify(result)}`);
  const { capacityBytes } = await storage.freshReading(mounted);
  if (capacityBytes !== result.sizeBytes || volumeBytes() !== result.sizeBytes)
    throw new Error(`shrunk: capacity ${capacityBytes}, volume ${volumeBytes()}`);
  await waitForTheCut();
}

async function end(opened: LvmStorageUnderTest, mounted: MountedLvm): Promise<void> {
  const { storage } = opened;
  sh(`rm -f ${mounted.mountPath}/ballast*`); // a cut brings back what was removed and not synced
  const result = await storage.shrink(mounted, SHRUNK_BYTES, makeShrinkControl());
  if (result.outcome !== "Succeeded") throw new Error(JSON.stringify(result));
  verifyRecords(mounted.mountPath);
  await storage.unstage(volume, mounted.mountPath);
  checkBtrfs(device);
  await removeAndEnd(opened, volume);
}

run().catch(fail);
