// One operation of the span storage in a process of its own, which a planted fault may end by SIGKILL. Arguments: the fixture's
// directory, the volume as JSON, the operation, the size in bytes, and the fault ("span/add-device/after") where there is one.
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import type { MountedSpan, ShrinkResult, SpanVolume } from "../../../src/agent/storage/storage.ts";
import { createFaultEffects, parsePlantedFaults } from "../../../src/platform/process/effects/effects.ts";
import { eventually } from "../../harness/wait-for.ts";
import { spanMountPath, spanStorageIn } from "./span-fixture.ts";
import { makeShrinkControl } from "./storage-fixture.ts";

const [directory = "", volumeText = "", operation = "", sizeText = "", fault] = process.argv.slice(2);
const volume = JSON.parse(volumeText) as SpanVolume;
const effects = createFaultEffects(parsePlantedFaults(fault), undefined);
const storage = spanStorageIn(directory, effects);
const mountPath = spanMountPath(directory, volume);

async function run(): Promise<unknown> {
  if (operation === "stage") return storage.stage(volume, 0, mountPath);
  if (operation === "unstage") return storage.unstage(volume, mountPath);
  if (operation === "remove") return storage.remove(volume);
  const mounted = await storage.find(volume, mountPath);
  if (mounted === undefined) throw new Error(`${volume.handle} is not mounted`);
  if (operation === "extend") return storage.extend(mounted, Number(sizeText));
  if (operation === "shrink") return storage.shrink(mounted, Number(sizeText), makeShrinkControl());
  if (operation === "stopped-shrink") return shrinkUntilStopped(mounted, Number(sizeText));
  throw new Error(`unknown operation "${operation}"`);
}

/** Told to stop as soon as the kernel takes a device out. */
async function shrinkUntilStopped(mounted: MountedSpan, sizeBytes: number): Promise<ShrinkResult> {
  const controller = new AbortController();
  const shrinking = storage.shrink(mounted, sizeBytes, makeShrinkControl({ signal: controller.signal }));
  let ended = false;
  const noteEnd = (): void => {
    ended = true;
  };
  shrinking.then(noteEnd, noteEnd);
  await eventually("the removal", () => ended || exclusiveOperation(volume.fsid) === "device remove");
  controller.abort(new Error("an extend goes first"));
  return shrinking;
}

run().then(
  (result) => console.log(JSON.stringify(result)),
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
