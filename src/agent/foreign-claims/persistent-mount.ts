// Whether a CSI mount of kubelet's is the PersistentVolume that a layout tells of, by what kubelet has written beside it: a pod's own
// inline volume may bear any name. It never looks into the mount itself, which may not answer.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { ClaimSource } from "../../api/filesystem-layout.ts";
import type { KubeletMount } from "./kubelet-mounts.ts";

/** kubelet's own record of a CSI volume; older kubelets do not name the lifecycle. */
const volumeRecord = z.object({
  driverName: z.string(),
  volumeHandle: z.string(),
  volumeLifecycleMode: z.string().default("Persistent"),
});

export function isPersistentMount({ mountPath }: KubeletMount, source: ClaimSource): boolean {
  const record = readRecord(join(dirname(mountPath), "vol_data.json"));
  return (
    record?.volumeLifecycleMode === "Persistent" &&
    record.driverName === source.driver &&
    record.volumeHandle === source.volumeHandle
  );
}

function readRecord(path: string): z.infer<typeof volumeRecord> | undefined {
  try {
    return volumeRecord.safeParse(JSON.parse(readFileSync(path, "utf8"))).data;
  } catch {
    return undefined; // being made, or being taken away
  }
}
