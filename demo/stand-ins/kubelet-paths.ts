// Where kubelet puts a volume: the same directories, so that whatever reads them on a node finds them here.
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { PersistentVolume, PersistentVolumeClaim } from "../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../src/contracts/names.ts";

/** One per volume and node. */
export function stagingPathOf(kubeletDirectory: string, volumeHandle: string): string {
  const digest = createHash("sha256").update(volumeHandle).digest("hex");
  return join(kubeletDirectory, "plugins/kubernetes.io/csi", LOCAL_DRIVER, digest, "globalmount");
}

/** What a pod would see; the claim stands for its pod. */
export function targetPathOf(kubeletDirectory: string, claim: PersistentVolumeClaim, volume: PersistentVolume): string {
  return join(
    kubeletDirectory,
    "pods",
    claim.metadata.uid ?? "",
    "volumes/kubernetes.io~csi",
    volume.metadata.name,
    "mount",
  );
}
