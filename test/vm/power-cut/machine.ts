// What runs inside the machine that loses its power: it looks at what the last power cut has left, before anything may mend it; then lvmd
// and the agent's storage recover, every record that was acknowledged is verified, and it shrinks under a writer until the next cut. Its
// argument: MachineSettings as JSON. Bundled by power-cycles.ts.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { MountedLvm } from "../../../src/agent/storage/storage.ts";
import type { LvmStorageUnderTest } from "../../integration/storage/lvm-fixture.ts";
import { makeShrinkControl } from "../../integration/storage/storage-fixture.ts";
import { FULL_BYTES, SHRUNK_BYTES } from "./machine-settings.ts";
import {
  device,
  fail,
  makeVolume,
  openDisks,
  recordOf,
  removeAndEnd,
  say,
  scatter,
  settings,
  sh,
  startLvmdAndStorage,
  verifyRecords,
  volumeBytes,
  volumeOf,
  waitForTheCut,
} from "./node-in-machine.ts";

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
  const ends = sh(`btrfs inspect-internal dump-super -a ${device} | sed -n 's/^dev_item.total_bytes[[:space:]]*//p'`);
  const endBytes = Math.max(...ends.trim().split("\n").map(Number));
  say(`left ${JSON.stringify({ lvBytes, endBytes, reduction: recordOf("reduction") })}`);
  if (!(endBytes <= lvBytes)) throw new Error(`the filesystem ends at ${endBytes}, its volume at ${lvBytes}`);
  checkFilesystem(true);
}

/**
 * Of a chunk that was just allocated the committed block group item may be behind its extents (seen once, on Linux 7.2). The kernel writes
 * that figure only where it thinks it has changed, and has been mistaken before while the item was being made (Linux 6.6, commits
 * 675dfe1223a6 and 2d6cd791e63e): no extent is wrong then. It alone is said, and judged by the records, which are all read; anything else that
 * is found fails, and at the end this does, too.
 */
const BEHIND = /^block group \[\d+ \d+\] used \d+ but extent items used \d+$/;
const FOLLOWS_FROM_IT = "ERROR: errors found in extent allocation tree or chunk allocation";
const NOTHING_FOUND =
  /^(\[\d\/\d\] |(Opening|Checking) filesystem |UUID: |found \d+ bytes used, |total |btree space |file data | ?referenced |$)/;

function checkFilesystem(mayBeBehind = false): void {
  try {
    sh(`btrfs check --readonly ${device} 2>&1`);
  } catch (error) {
    const lines = ((error as { stdout?: string }).stdout ?? "").split("\n");
    const behind = lines.filter((line) => BEHIND.test(line));
    const others = lines.filter((line) => !BEHIND.test(line) && line !== FOLLOWS_FROM_IT && !NOTHING_FOUND.test(line));
    if (!mayBeBehind || behind.length === 0 || others.length > 0)
      throw new Error(`btrfs check: ${lines.join("\n")}`, { cause: error });
    for (const line of behind) say(`behind ${line}`);
  }
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
  const writer = spawn(
    process.execPath,
    [join(settings.directory, "writer.mjs"), mounted.mountPath, String(settings.boot)],
    {
      stdio: ["ignore", "inherit", "inherit"],
    },
  );
  writer.once("exit", (code) => fail(new Error(`the writer ended with ${code}`)));
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
  checkFilesystem();
  await removeAndEnd(opened, volume);
}

run().catch(fail);
