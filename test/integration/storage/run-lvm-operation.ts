// One operation of the storage on logical volumes in a process of its own, which a planted fault may end by SIGKILL. Arguments: the
// fixture's directory, lvmd's socket, the volume as JSON, the operation, the size in bytes, a file for the effects passed, and the fault.
import type { LvmVolume, MountedLvm } from "../../../src/agent/storage/storage.ts";
import { createFaultEffects, parsePlantedFaults } from "../../../src/platform/process/effects/effects.ts";
import { openLvmStorage } from "./lvm-fixture.ts";
import { makeShrinkControl } from "./storage-fixture.ts";

const [directory = "", socketPath = "", volumeText = "", operation = "", sizeText = "", log, fault] =
  process.argv.slice(2);
const volume = JSON.parse(volumeText) as LvmVolume;
const sizeBytes = Number(sizeText);

async function run(): Promise<void> {
  const effects = createFaultEffects(parsePlantedFaults(fault), log);
  const { storage, mountPathOf, lvm } = await openLvmStorage(directory, socketPath, effects);
  const mountPath = mountPathOf(volume);
  const mounted = async (): Promise<MountedLvm> => {
    const found = await storage.find(volume, mountPath);
    if (found === undefined) throw new Error(`${volume.handle} is not mounted`);
    return found;
  };
  switch (operation) {
    case "stage":
      await storage.stage(volume, 0, mountPath);
      break;
    case "extend":
      await storage.extend(await mounted(), sizeBytes);
      break;
    case "shrink":
      await storage.shrink(await mounted(), sizeBytes, makeShrinkControl());
      break;
    case "shrink-unmounted":
      await storage.shrinkUnmounted(volume, sizeBytes, makeShrinkControl());
      break;
    case "finish-unmounted":
      await storage.finishUnmounted(volume);
      break;
    case "unstage":
      await storage.unstage(volume, mountPath);
      break;
    case "remove":
      await storage.remove(volume);
      break;
    default:
      throw new Error(`unknown operation "${operation}"`);
  }
  lvm.stop();
}

run().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
