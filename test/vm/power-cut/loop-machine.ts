// What runs inside the machine that loses its power while a volume of the backend loop shrinks and grows, its member a file on the node's
// disk: it looks at what the last power cut has left, before anything may mend it; then the agent's storage recovers, every record that was
// acknowledged is verified, and it works under a writer until the next cut. Its argument: MachineSettings as JSON. Bundled by power-cycles.ts.
import { existsSync, statSync } from "node:fs";
import { readMemberRecord } from "../../../src/agent/storage/block/member-record.ts";
import { deviceSizeBytes } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { createFaultEffects } from "../../../src/platform/process/effects/effects.ts";
import { createStorageFixture, makeShrinkControl, makeVolume } from "../../integration/storage/storage-fixture.ts";
import { checkBtrfs, endBytesOf } from "./btrfs-in-machine.ts";
import { knownOutside, noteOutside } from "./known-outside.ts";
import { FULL_BYTES, SHRUNK_BYTES } from "./machine-settings.ts";
import {
  attachDisks,
  end,
  fail,
  openDisk,
  say,
  scatter,
  settings,
  sh,
  startWriter,
  TOLD,
  VOLUMES,
  verifyRecords,
  waitForTheCut,
} from "./node-in-machine.ts";

const SCATTERED_FILES = 10;

const [data] = attachDisks();
// Members and their records are on one disk, so that neither survives the other.
openDisk(data, VOLUMES);
const { storage, mountPathOf, memberPathOf, recordPathOf } = createStorageFixture(
  createFaultEffects([], TOLD),
  VOLUMES,
);
const volume = makeVolume("btrfs", settings.volumeUID);
const memberPath = memberPathOf(volume);

async function run(): Promise<void> {
  if (knownOutside("staged") === true) lookAtWhatIsLeft();
  const mounted = await recover();
  verifyRecords(mounted.mountPath);
  if (settings.last) await shrinkAndEnd(mounted);
  else await workUnderWriter(mounted);
}

/** Before anything is attached: the filesystem ends within its file, and is whole, and its record says that data is on it. */
function lookAtWhatIsLeft(): void {
  const state = readMemberRecord(`${VOLUMES}/records`, volume.memberFile)?.state;
  const fileBytes = statSync(memberPath).size;
  const endBytes = endBytesOf(memberPath);
  say(`left ${JSON.stringify({ state, fileBytes, endBytes })}`);
  if (state !== "mounted") throw new Error(`its member is recorded as ${state}, and it was mounted`);
  if (!(endBytes <= fileBytes)) throw new Error(`the filesystem ends at ${endBytes}, its file at ${fileBytes}`);
  checkBtrfs(memberPath, true);
}

/** As the agent's reconciler: staged, recovered, and then as large as its file. */
async function recover(): Promise<MountedLoop> {
  const mounted = await storage.stage(volume, FULL_BYTES, mountPathOf(volume));
  noteOutside("staged", true);
  await storage.recover(mounted);
  say(`recovered ${await agreedBytes(mounted)}`);
  return mounted;
}

/** Of filesystem, device and file; throws where they differ. */
async function agreedBytes(mounted: MountedLoop): Promise<number> {
  const { capacityBytes } = await storage.freshReading(mounted);
  const fileBytes = statSync(memberPath).size;
  const deviceBytes = deviceSizeBytes(mounted.device);
  if (capacityBytes !== fileBytes || deviceBytes !== fileBytes)
    throw new Error(`capacity ${capacityBytes}, device ${deviceBytes}, file ${fileBytes}`);
  return fileBytes;
}

async function workUnderWriter(mounted: MountedLoop): Promise<void> {
  await grow(mounted);
  scatter(mounted.mountPath, SCATTERED_FILES, SHRUNK_BYTES);
  startWriter(mounted.mountPath);
  say("shrinking");
  const result = await storage.shrink(mounted, SHRUNK_BYTES, makeShrinkControl());
  say(`shrunk ${JSON.stringify(result)}`);
  if ((await agreedBytes(mounted)) !== result.sizeBytes) throw new Error(JSON.stringify(result));
  await grow(mounted);
  await waitForTheCut();
}

async function grow(mounted: MountedLoop): Promise<void> {
  say("growing");
  const reached = await storage.extend(mounted, FULL_BYTES);
  if (reached !== FULL_BYTES || (await agreedBytes(mounted)) !== FULL_BYTES) throw new Error(`extended to ${reached}`);
  say("grown");
}

async function shrinkAndEnd(mounted: MountedLoop): Promise<void> {
  sh(`rm -f ${mounted.mountPath}/ballast*`); // a cut brings back what was removed and not synced
  const result = await storage.shrink(mounted, SHRUNK_BYTES, makeShrinkControl());
  if (result.outcome !== "Succeeded") throw new Error(JSON.stringify(result));
  verifyRecords(mounted.mountPath);
  await storage.unstage(volume, mounted.mountPath);
  checkBtrfs(memberPath);
  await storage.remove(volume);
  const left = [memberPath, recordPathOf(volume)].filter((path) => existsSync(path));
  if (left.length > 0) throw new Error(`removed, and ${left.join(", ")} is there`);
  end();
}

run().catch(fail);
