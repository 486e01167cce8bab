// What is read of a volume before it is changed. PersistentVolumes are written by people too, and name any handle they like: claim,
// PersistentVolume and handle must name each other, by UID, both ways. And a node that still has the filesystem mounted, or may have, has
// its members attached; one that is gone, or that an administrator has declared out of service, no longer holds anything.
import { Refusal } from "../../contracts/csi/refusal.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isUnheard, mountNodeOf } from "../decide/layout-facts.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { lossOf } from "../node-loss/decide-node-loss.ts";
import type { VolumeOrder } from "./requests/volume-order.ts";

export interface Binding {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "persistentVolumes">;
}

/**
 * The UID of the claim that a new volume is for. Where the volume's name carries one, it must be that of the claim of the
 * given name. Undefined: CSI is called by hand for a claim that does not exist. Throws Refusal.
 */
export async function claimUIDOf(client: KubeClient, order: VolumeOrder): Promise<string | undefined> {
  const uid = (await client.get(PERSISTENT_VOLUME_CLAIMS, order.claim))?.metadata.uid;
  if (order.claimUID === undefined || order.claimUID === uid) return uid;
  const found = uid === undefined ? "does not exist" : `has the UID ${uid}`;
  throw new Refusal(
    "FAILED_PRECONDITION",
    `the volume is named for the claim ${order.claimUID}, but claim ${objectKey(order.claim)} ${found}; the claim was deleted`,
  );
}

/**
 * A volume is not deleted under a claim that is bound to it, nor while two PersistentVolumes name it, nor once its
 * PersistentVolume says Retain. Retain is read from the API server: a user may have set it after the caller read the
 * volume. Throws Refusal.
 */
export async function requireDeletable(binding: Binding, handle: string): Promise<void> {
  const volumes = volumesOf(binding, handle);
  if (volumes.length > 1) throw contested(handle, volumes);
  for (const volume of volumes) {
    const claim = await claimOf(binding.client, volume);
    if (claim !== undefined && isBound(claim, volume) && claim.metadata.deletionTimestamp === undefined)
      throw new Refusal(
        "FAILED_PRECONDITION",
        `${handle} is in use: claim ${objectKey(claim.metadata)} is bound to its PersistentVolume ${volume.metadata.name}; delete the claim first`,
      );
    const live = await binding.client.get(PERSISTENT_VOLUMES, { name: volume.metadata.name });
    if (live?.spec.persistentVolumeReclaimPolicy === "Retain")
      throw new Refusal(
        "FAILED_PRECONDITION",
        `${handle} is retained: PersistentVolume ${volume.metadata.name} says Retain; set it to Delete first`,
      );
  }
}

/** A volume is expanded, and given to a node, for its own claim only. Without a PersistentVolume CSI is called by hand. Throws Refusal. */
export async function requireOwnClaim(
  binding: Binding,
  { metadata: { name: handle }, spec }: FilesystemLayout,
): Promise<void> {
  const [volume, ...others] = volumesOf(binding, handle);
  if (volume === undefined) return;
  if (others.length > 0) throw contested(handle, [volume, ...others]);
  const claim = await claimOf(binding.client, volume);
  const { namespace, name } = spec.claimRef ?? {};
  const isOwn = claim?.metadata.namespace === namespace && claim?.metadata.name === name;
  if (claim !== undefined && isOwn && isBound(claim, volume)) return;
  throw new Refusal(
    "FAILED_PRECONDITION",
    `${handle} was made for claim ${namespace}/${name}, and PersistentVolume ${volume.metadata.name} and that claim do not name each other`,
  );
}

function volumesOf({ caches }: Binding, handle: string): PersistentVolume[] {
  return caches.persistentVolumes.store.byIndex("handle", handle);
}

async function claimOf(client: KubeClient, { spec }: PersistentVolume): Promise<PersistentVolumeClaim | undefined> {
  const { namespace, name } = spec.claimRef ?? {};
  if (!namespace || !name) return undefined;
  return client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
}

function isBound(claim: PersistentVolumeClaim, volume: PersistentVolume): boolean {
  return claim.metadata.uid === volume.spec.claimRef?.uid && claim.spec.volumeName === volume.metadata.name;
}

function contested(handle: string, volumes: readonly PersistentVolume[]): Refusal {
  const names = volumes.map(({ metadata }) => metadata.name).sort();
  return new Refusal(
    "FAILED_PRECONDITION",
    `more than one PersistentVolume has the handle ${handle} (${names.join(", ")}); set the wrong ones to Retain and delete them`,
  );
}

export async function presentMountNode(client: KubeClient, layout: FilesystemLayout): Promise<string | undefined> {
  const holder = mountNodeOf(layout);
  return holder === undefined || (await isLost(client, holder)) ? undefined : holder;
}

/**
 * Whether a node holds it now that was not known to when `before` was found held by no node, or by a lost one. A layout
 * that was recreated since is decided on again.
 */
export function isMountedSince(before: FilesystemLayout, now: FilesystemLayout): boolean {
  const holder = mountNodeOf(now);
  return now.metadata.uid !== before.metadata.uid || (holder !== undefined && holder !== mountNodeOf(before));
}

/** Where, for people. */
export function describeMount(layout: FilesystemLayout, holder: string): string {
  return isUnheard(layout)
    ? `perhaps mounted on node ${holder}, whose agent has not reported since the volume's FilesystemLayout was rebuilt`
    : `still mounted on node ${holder}`;
}

export async function isLost(client: KubeClient, nodeName: string): Promise<boolean> {
  return lossOf(await client.get(NODES, { name: nodeName })) !== undefined;
}
