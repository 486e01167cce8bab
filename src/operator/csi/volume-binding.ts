// Whether what a sidecar asks for is meant for this very volume. PersistentVolumes are written by people too, and name any
// handle they like: before a volume is changed, claim, PersistentVolume and handle must name each other, by UID, both ways.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { objectKey } from "../../kube/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../kube/resources.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import type { VolumeOrder } from "./volume-order.ts";

export interface Binding {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "persistentVolumes">;
}

/**
 * The UID of the claim that a new volume is for. Where the volume's name carries one, it must be that of the claim of the
 * given name. Undefined: CSI is called by hand for a claim that does not exist.
 */
export async function claimUIDOf(client: KubeClient, order: VolumeOrder): Promise<string | undefined | Refusal> {
  const uid = (await client.get(PERSISTENT_VOLUME_CLAIMS, order.claim))?.metadata.uid;
  if (order.claimUID === undefined || order.claimUID === uid) return uid;
  const found = uid === undefined ? "does not exist" : `has the UID ${uid}`;
  return new Refusal(
    "FAILED_PRECONDITION",
    `the volume is named for the claim ${order.claimUID}, but claim ${objectKey(order.claim)} ${found}; the claim was deleted meanwhile`,
  );
}

/**
 * A volume is not deleted under a claim that is bound to it, nor while two PersistentVolumes say that it is theirs, nor once its
 * PersistentVolume says Retain, as the API server has it now: a caller may have read it before somebody decided so.
 */
export async function refusalOfDeletion(binding: Binding, handle: string): Promise<Refusal | undefined> {
  const volumes = volumesOf(binding, handle);
  if (volumes.length > 1) return contested(handle, volumes);
  for (const volume of volumes) {
    const claim = await claimOf(binding.client, volume);
    if (claim !== undefined && isBound(claim, volume) && claim.metadata.deletionTimestamp === undefined)
      return new Refusal(
        "FAILED_PRECONDITION",
        `${handle} is in use: claim ${objectKey(claim.metadata)} is bound to its PersistentVolume ${volume.metadata.name}; delete the claim first`,
      );
    const live = await binding.client.get(PERSISTENT_VOLUMES, { name: volume.metadata.name });
    if (live?.spec.persistentVolumeReclaimPolicy === "Retain")
      return new Refusal(
        "FAILED_PRECONDITION",
        `${handle} is kept: PersistentVolume ${volume.metadata.name} says Retain; set it to Delete first`,
      );
  }
  return undefined;
}

/** A volume is expanded, and given to a node, for its own claim only. Without a PersistentVolume CSI is called by hand. */
export async function refusalOfForeignClaim(
  binding: Binding,
  { metadata: { name: handle }, spec }: FilesystemLayout,
): Promise<Refusal | undefined> {
  const [volume, ...others] = volumesOf(binding, handle);
  if (volume === undefined) return undefined;
  if (others.length > 0) return contested(handle, [volume, ...others]);
  const claim = await claimOf(binding.client, volume);
  const { namespace, name } = spec.claimRef ?? {};
  const isOwn = claim?.metadata.namespace === namespace && claim?.metadata.name === name;
  if (claim !== undefined && isOwn && isBound(claim, volume)) return undefined;
  return new Refusal(
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
    `PersistentVolumes ${names.join(" and ")} all name ${handle}; set the forged ones to Retain and delete them`,
  );
}
