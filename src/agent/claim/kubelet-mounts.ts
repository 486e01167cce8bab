// Where kubelet has mounted the PersistentVolumes of this node's pods, by the kernel's own table. Pure. What a pod's author names
// is no PersistentVolume, even if it is called like one: kinds that live and die with a pod do not count.
import { join } from "node:path";
import type { Mount } from "../storage/mount-table.ts";

export interface KubeletMount {
  readonly volumeName: string;
  /** Whether a CSI driver has mounted it, rather than a plugin of kubelet's own. */
  readonly isCsi: boolean;
  readonly mountPath: string;
}

/** pods/UID/volumes/PLUGIN/NAME, and for CSI pods/UID/volumes/kubernetes.io~csi/NAME/mount (kubelet's volume host). */
const VOLUME_PATH = /^pods\/[^/]+\/volumes\/([^/]+)\/([^/]+)(\/mount)?$/;
const CSI_PLUGIN = "kubernetes.io~csi";
/** Named by the pod's author. */
const POD_PLUGINS: ReadonlySet<string> = new Set(
  ["empty-dir", "configmap", "secret", "projected", "downward-api", "git-repo", "host-path", "image"].map(
    (kind) => `kubernetes.io~${kind}`,
  ),
);

/** In the order of the table: of two at one path the later one is on top. `kubeletDirectory` without symbolic links. */
export function kubeletMounts(kubeletDirectory: string, mounts: readonly Mount[]): KubeletMount[] {
  const prefix = join(kubeletDirectory, "/");
  return mounts.flatMap(({ mountPath }) => {
    const [, plugin, volumeName, mount] =
      (mountPath.startsWith(prefix) && VOLUME_PATH.exec(mountPath.slice(prefix.length))) || [];
    if (plugin === undefined || volumeName === undefined || POD_PLUGINS.has(plugin)) return [];
    const isCsi = plugin === CSI_PLUGIN;
    return isCsi === (mount !== undefined) ? [{ volumeName, isCsi, mountPath }] : [];
  });
}
