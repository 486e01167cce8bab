// Everything that is decided on about one ordinary claim, read from the caches at once.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolume, PersistentVolumeClaim, StorageClass } from "../../kube/resources.ts";
import type { ClaimCaches } from "./claim-caches.ts";
import { nodeOfVolume } from "./node-of-volume.ts";
import type { OptIn } from "./opt-in.ts";

export interface OrdinaryClaim {
  readonly handle: string;
  readonly claim: PersistentVolumeClaim;
  /** The volume that is bound to this very claim, as both say. */
  readonly volume: PersistentVolume | undefined;
  readonly storageClass: StorageClass | undefined;
  /** The policy that opts it in. */
  readonly optedInBy: string | undefined;
  /** Where it is used. */
  readonly nodeName: string | undefined;
  readonly layout: FilesystemLayout | undefined;
  /** Of this very claim. */
  readonly filesystem: Filesystem | undefined;
}

/** Undefined: there is no such claim any more, or it is on its way out. */
export function gatherClaim(caches: ClaimCaches, optIn: OptIn, handle: string): OrdinaryClaim | undefined {
  const claim = caches.claims.store.byIndex("handle", handle)[0];
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined) return undefined;
  const volume = boundVolume(claim, caches.persistentVolumes.store.get(claim.spec.volumeName ?? ""));
  const filesystem = caches.filesystems.store.get(objectKey(claim.metadata));
  const attachments = volume === undefined ? [] : caches.attachments.store.byIndex("volume", volume.metadata.name);
  return {
    handle,
    claim,
    volume,
    storageClass: caches.storageClasses.store.get(claim.spec.storageClassName ?? ""),
    optedInBy: optIn(claim),
    nodeName: volume && nodeOfVolume(volume, attachments),
    layout: caches.layouts.store.get(handle),
    filesystem: filesystem?.spec.claimRef?.uid === claim.metadata.uid ? filesystem : undefined,
  };
}

function boundVolume(
  { metadata, status }: PersistentVolumeClaim,
  volume: PersistentVolume | undefined,
): PersistentVolume | undefined {
  return status?.phase === "Bound" && volume?.spec.claimRef?.uid === metadata.uid ? volume : undefined;
}
