// One claim on a running stack, as its user sees it: created, mounted, given labels, watched, deleted. It looks at the world (the
// API, statfs, the member file), never into a process.

import { readFileSync, realpathSync, statfsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { mountsUnder } from "../../demo/show/run/mount-table.ts";
import { LOOP_CLASS_NAME } from "../../demo/stand-ins/bootstrap.ts";
import { fsidOf, volumeHandleOf } from "../../src/contracts/identity.ts";
import { FILESYSTEMS, type Filesystem } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { SCALING_APPROVALS, type ScalingApproval } from "../../src/contracts/kinds/scaling-approval.ts";
import { VOLUME_POLICIES, type VolumePolicySpec } from "../../src/contracts/kinds/volume-policy.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../src/contracts/kubernetes/resources.ts";
import type { Stack } from "./stack.ts";
import { waitFor } from "./wait-for.ts";

/** Without it an API server drops a snapshot's reference. */
const GROUP_OF = {
  VolumeSnapshot: { apiGroup: "snapshot.storage.k8s.io" },
  PersistentVolumeClaim: {},
} as const;

export const NAMESPACE = "default";

export interface ClaimSettings {
  readonly request: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly storageClassName?: string;
  readonly volumeMode?: "Block";
  /** What it begins as a copy of; named by its id in CSI, since nothing here stands in for VolumeSnapshots. */
  readonly dataSource?: { readonly kind: "VolumeSnapshot" | "PersistentVolumeClaim"; readonly name: string };
  /** For it to be mounted. */
  readonly limitMs?: number;
}

export interface TestVolume {
  readonly name: string;
  readonly handle: string;
  readonly fsid: string;
  /** Where a pod would see it. */
  readonly mountPath: string;
  /** A file, or the device of a logical volume. */
  readonly memberPath: string;
}

/** Creates a claim and returns when its filesystem, or its device, is mounted for its pod. */
export async function createVolume(stack: Stack, name: string, settings: ClaimSettings): Promise<TestVolume> {
  const { request, labels = {}, storageClassName = LOOP_CLASS_NAME, volumeMode, dataSource } = settings;
  const claim = await stack.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name, namespace: NAMESPACE, labels },
    spec: {
      storageClassName,
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: request } },
      ...(volumeMode && { volumeMode }),
      ...(dataSource && { dataSource: { ...GROUP_OF[dataSource.kind], ...dataSource } }),
    },
  });
  const uid = claim.metadata.uid ?? "";
  const handle = volumeHandleOf(uid);
  const podDirectory = join(stack.kubeletDirectory, "pods", uid);
  const mountPath = await waitFor(`claim ${name} to be mounted`, () => mountsUnder(podDirectory)[0], {
    ...(settings.limitMs !== undefined && { limitMs: settings.limitMs }),
    otherwise: () => stack.tellLogs(),
  });
  const layout = await stack.client.get(FILESYSTEM_LAYOUTS, { name: handle });
  return { name, handle, fsid: fsidOf(uid), mountPath, memberPath: memberPathOf(stack, layout) };
}

function memberPathOf({ memberDirectory, lvm }: Stack, layout: FilesystemLayout | undefined): string {
  const { loop, logicalVolume } = layout?.spec.members?.[0]?.source ?? {};
  if (logicalVolume !== undefined) return join("/dev", lvm?.group ?? "", logicalVolume.volumeID);
  return join(memberDirectory, loop?.file ?? "");
}

/** Of a file, or of a device: the kernel tells the number of sectors of 512 bytes. */
function memberBytesOf({ memberPath }: TestVolume): number {
  if (!memberPath.startsWith("/dev/tidemark-")) return statSync(memberPath).size;
  return Number(readFileSync(`/sys/block/${basename(realpathSync(memberPath))}/size`, "utf8")) * 512;
}

/** Deletes the claim and returns when nothing of it is left in the API, in the kernel and on the disk. */
export async function deleteVolume(stack: Stack, volume: TestVolume): Promise<void> {
  await stack.client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, nameOf(volume));
  await waitFor(
    `nothing to be left of claim ${volume.name}`,
    async () => ((await leftOf(stack, volume)).length === 0 ? true : undefined),
    {
      otherwise: async () => `left are ${(await leftOf(stack, volume)).join(", ")}\n${stack.tellLogs()}`,
    },
  );
}

async function leftOf(stack: Stack, volume: TestVolume): Promise<string[]> {
  const found: Readonly<Record<string, unknown>> = {
    claim: await stack.client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(volume)),
    volume: await stack.client.get(PERSISTENT_VOLUMES, { name: `pvc-${volume.handle.slice("fs-".length)}` }),
    layout: await layoutOf(stack, volume).catch(() => undefined),
    filesystem: await stack.client.get(FILESYSTEMS, nameOf(volume)),
    member: statSync(volume.memberPath, { throwIfNoEntry: false }),
    kernel: statSync(`/sys/fs/btrfs/${volume.fsid}`, { throwIfNoEntry: false }),
  };
  return Object.keys(found).filter((what) => found[what] !== undefined);
}

export async function labelClaim(
  stack: Stack,
  volume: TestVolume,
  labels: Record<string, string | null>,
): Promise<void> {
  const patch = { metadata: { labels } };
  await stack.client.mergePatch("test/label-claim", PERSISTENT_VOLUME_CLAIMS, nameOf(volume), patch);
}

export async function applyPolicy(stack: Stack, name: string, spec: VolumePolicySpec): Promise<void> {
  const policy = {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { name, namespace: NAMESPACE },
    spec,
  };
  await stack.client.apply("test/apply-policy", VOLUME_POLICIES, policy, { fieldManager: "test", force: true });
}

export async function applyApproval(stack: Stack, name: string, spec: ScalingApproval["spec"]): Promise<void> {
  const approval = {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "ScalingApproval",
    metadata: { name, namespace: NAMESPACE },
    spec,
  };
  await stack.client.apply("test/apply-approval", SCALING_APPROVALS, approval, { fieldManager: "test", force: true });
}

export async function layoutOf(stack: Stack, volume: TestVolume): Promise<FilesystemLayout> {
  const layout = await stack.client.get(FILESYSTEM_LAYOUTS, { name: volume.handle });
  if (layout === undefined) throw new Error(`there is no FilesystemLayout ${volume.handle}`);
  return layout;
}

export async function filesystemOf(stack: Stack, volume: TestVolume): Promise<Filesystem> {
  const filesystem = await stack.client.get(FILESYSTEMS, nameOf(volume));
  if (filesystem === undefined) throw new Error(`there is no Filesystem ${volume.name}`);
  return filesystem;
}

/** What the filesystem itself says. */
export function capacityBytesOf(volume: TestVolume): number {
  const { blocks, bsize } = statfsSync(volume.mountPath);
  return blocks * bsize;
}

/** Waits until filesystem and member have this size and no operation is recorded any more. */
export async function waitForSize(
  stack: Stack,
  volume: TestVolume,
  sizeBytes: number,
  limitMs?: number,
): Promise<void> {
  const look = async (): Promise<true | undefined> => {
    if (capacityBytesOf(volume) !== sizeBytes || memberBytesOf(volume) !== sizeBytes) return undefined;
    const { status } = await layoutOf(stack, volume);
    return status?.operation === undefined || status.operation === null ? true : undefined;
  };
  await waitFor(`${volume.name} to have ${sizeBytes} bytes`, look, {
    ...(limitMs === undefined ? {} : { limitMs }),
    otherwise: async () => `it is ${JSON.stringify(await situationOf(stack, volume))}\n${stack.tellLogs()}`,
  });
}

async function situationOf(stack: Stack, volume: TestVolume) {
  const { spec, status } = await layoutOf(stack, volume);
  const { status: filesystem } = await filesystemOf(stack, volume);
  const { operation, lastOperation } = status ?? {};
  return { capacityBytes: capacityBytesOf(volume), spec, operation, lastOperation, scaling: filesystem?.scaling };
}

function nameOf({ name }: TestVolume): { namespace: string; name: string } {
  return { namespace: NAMESPACE, name };
}
