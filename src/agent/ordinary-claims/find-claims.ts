// Which of this node's ordinary claims are mounted, and where: layouts of the backend claim, joined with kubelet's mounts, which the kernel's
// own table names. Only CSI drivers expand volumes: what kubelet's other plugins mount (NFS, a directory of the host, a local disk) cannot
// be extended, and is not measured.

import { readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { ClaimSource } from "../../contracts/kinds/claim-source.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import { type Mount, parseMounts } from "../storage/filesystem/devices-and-mounts.ts";

export interface MountedClaim {
  readonly handle: string;
  readonly claimRef: { readonly namespace: string; readonly name: string };
  /** What its driver has provided. */
  readonly sizeBytes: number;
  /** All of them show the same filesystem. */
  readonly mountPaths: readonly string[];
  /** Who answers for it. */
  readonly server: string;
}

/** Reads the kernel's table and kubelet's records; no mounted filesystem is touched. */
export function findClaims(kubeletDirectory: string, layouts: readonly FilesystemLayout[]): MountedClaim[] {
  if (layouts.length === 0) return [];
  const table = parseMounts(readFileSync("/proc/self/mountinfo", "utf8"));
  const mounts = kubeletMounts(realpathSync(kubeletDirectory), table);
  return layouts.flatMap((layout) => mountedClaim(layout, mounts) ?? []);
}

function mountedClaim(layout: FilesystemLayout, mounts: readonly KubeletMount[]): MountedClaim | undefined {
  const { metadata, spec } = layout;
  const source: ClaimSource | undefined = spec.members?.[0]?.source.claim;
  const sizeBytes = filesystemSizeBytes(layout);
  const { namespace, name } = spec.claimRef ?? {};
  if (source === undefined || sizeBytes === undefined || namespace === undefined || name === undefined)
    return undefined;
  const own = mounts.filter((mount) => mount.volumeName === source.volumeName && isPersistentMount(mount, source));
  // Of two at one path the later one is on top.
  const newest = own.at(-1);
  if (newest === undefined) return undefined;
  const mountPaths = own.map(({ mountPath }) => mountPath);
  return { handle: metadata.name, claimRef: { namespace, name }, sizeBytes, mountPaths, server: newest.server };
}

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

/** kubelet's own record of a CSI volume; older kubelets do not name the lifecycle. */
const volumeRecord = z.object({
  driverName: z.string(),
  volumeHandle: z.string(),
  volumeLifecycleMode: z.string().default("Persistent"),
});

/**
 * Whether a CSI mount of kubelet's is the PersistentVolume that a layout names, by the record that kubelet has written next to the mount: a
 * pod's own inline volume may have any name. The mount itself, which may not answer, is never read.
 */
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

export function isClaimLayout({ spec }: FilesystemLayout): boolean {
  return spec.backend === "claim";
}

/** Of our own volumes: nothing that stages, resizes or deletes ever sees a claim's. */
export function ownLayouts(store: ReadableStore<FilesystemLayout>): ReadableStore<FilesystemLayout> {
  const isOwn = (layout: FilesystemLayout): boolean => !isClaimLayout(layout);
  return {
    get: (key) => {
      const layout = store.get(key);
      return layout !== undefined && isOwn(layout) ? layout : undefined;
    },
    list: () => store.list().filter(isOwn),
    byIndex: (name, value) => store.byIndex(name, value).filter(isOwn),
    get size() {
      return store.list().filter(isOwn).length;
    },
  };
}
