// A volume whose device is lost under its user: its data is gone, and whatever reads or writes it gets an I/O error. Done from
// outside, as a disk dies without asking its driver; nothing brings the volume back.
import { rmSync, truncateSync } from "node:fs";
import { loopOf, refreshLoop } from "./loop.ts";
import { createVolumeFiles } from "./volume-files.ts";

export async function vanish(directory: string, volumeId: string): Promise<void> {
  const image = createVolumeFiles(directory).imagePath(volumeId);
  const device = loopOf(volumeId);
  truncateSync(image, 0);
  if (device !== undefined) await refreshLoop(device); // a device of no size refuses all
  rmSync(image);
}
