// Where kubelet has mounted the CSI volumes of this node's pods, by the kernel's own table. Pure. Only CSI drivers expand volumes:
// what kubelet's other plugins mount (NFS, a directory of the host, a local disk) cannot be extended, and is not measured.
import { join } from "node:path";
import type { Mount } from "../storage/filesystem/mount-table.ts";

export interface KubeletMount {
  /** A PersistentVolume's name, or whatever a pod's author calls an inline volume. */
  readonly volumeName: string;
  readonly mountPath: string;
  /** Who answers for it: all that one server has hang together. A disk is its own. */
  readonly server: string;
}

/** kubelet's place for them (its volume host). */
const VOLUME_PATH = /^pods\/[^/]+\/volumes\/kubernetes\.io~csi\/([^/]+)\/mount$/;

/** In the order of the table: of two at one path the later one is on top. `kubeletDirectory` without symbolic links. */
export function kubeletMounts(kubeletDirectory: string, mounts: readonly Mount[]): KubeletMount[] {
  const prefix = join(kubeletDirectory, "/");
  return mounts.flatMap(({ mountPath, fsType, source }) => {
    const [, volumeName] = (mountPath.startsWith(prefix) && VOLUME_PATH.exec(mountPath.slice(prefix.length))) || [];
    return volumeName === undefined ? [] : [{ volumeName, mountPath, server: `${fsType} ${hostOf(source)}` }];
  });
}

/** "host:/path" (NFS, CephFS) and "//host/share" (SMB); any other source is named whole. */
function hostOf(source: string): string {
  return /^(\/\/[^/]+|[^/].*?(?=:\/))/.exec(source)?.[0] ?? source;
}
