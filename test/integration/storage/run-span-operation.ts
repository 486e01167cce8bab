// One operation of the span storage in a process of its own, which a planted fault may end by SIGKILL. Arguments: the fixture's
// directory, the volume as JSON, the operation, the size in bytes, and the fault ("span/add-device/after") where there is one.
import type { SpanVolume } from "../../../src/agent/storage/storage.ts";
import { createFaultEffects, parsePlantedFault } from "../../../src/process/fault-effects.ts";
import { spanMountPath, spanStorageIn } from "./span-fixture.ts";
import { makeShrinkControl } from "./storage-fixture.ts";

const [directory = "", volumeText = "", operation = "", sizeText = "", fault] = process.argv.slice(2);
const volume = JSON.parse(volumeText) as SpanVolume;
const effects = createFaultEffects(fault === undefined ? undefined : parsePlantedFault(fault), undefined);
const storage = spanStorageIn(directory, effects);
const mountPath = spanMountPath(directory, volume);

async function run(): Promise<unknown> {
  if (operation === "stage") return storage.stage(volume, 0, mountPath);
  if (operation === "unstage") return storage.unstage(volume, mountPath);
  const mounted = await storage.find(volume, mountPath);
  if (mounted === undefined) throw new Error(`${volume.handle} is not mounted`);
  if (operation === "extend") return storage.extend(mounted, Number(sizeText));
  if (operation === "shrink") return storage.shrink(mounted, Number(sizeText), makeShrinkControl());
  throw new Error(`unknown operation "${operation}"`);
}

run().then(
  (result) => console.log(JSON.stringify(result)),
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
