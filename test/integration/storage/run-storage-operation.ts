// One storage operation in a process of its own, which a planted fault may end by SIGKILL. Arguments: the fixture's directory,
// the volume as JSON, the operation, the size in bytes, and the fault ("extend/grow-file/after#1") where there is one.
// Prints the result as JSON.

import type { LoopVolume } from "../../../src/agent/storage/storage.ts";
import { createFaultEffects, parsePlantedFaults } from "../../../src/platform/process/effects/effects.ts";
import { createStorageFixture, makeShrinkControl } from "./storage-fixture.ts";

const [directory = "", volumeText = "", operation = "", sizeText = "", fault] = process.argv.slice(2);
const volume = JSON.parse(volumeText) as LoopVolume;
const sizeBytes = Number(sizeText);
const effects = createFaultEffects(parsePlantedFaults(fault), undefined);
const { storage, mountPathOf } = createStorageFixture(effects, directory);
const mountPath = mountPathOf(volume);

async function run(): Promise<unknown> {
  const mounted = await storage.stage(volume, sizeBytes, mountPath);
  switch (operation) {
    case "stage":
      return mounted;
    case "extend":
      return storage.extend(mounted, sizeBytes);
    case "shrink":
      return storage.shrink(mounted, sizeBytes, makeShrinkControl());
    case "unstage":
      return storage.unstage(volume, mountPath);
    default:
      throw new Error(`unknown operation "${operation}"`);
  }
}

run().then(
  (result) => console.log(JSON.stringify(result)),
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);
