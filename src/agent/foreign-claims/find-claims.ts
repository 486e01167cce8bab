// Which of this node's ordinary claims are mounted, and where: layouts of the backend claim, joined with kubelet's mounts.
import { readFileSync, realpathSync } from "node:fs";
import type { ClaimSource, FilesystemLayout } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { parseMounts } from "../storage/filesystem/mount-table.ts";
import { type KubeletMount, kubeletMounts } from "./kubelet-mounts.ts";
import { isPersistentMount } from "./persistent-mount.ts";

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
