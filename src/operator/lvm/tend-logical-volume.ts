// Keeps the LogicalVolume of a volume that has its layout: one that somebody has deleted is made again, as the name of the volume of LVM
// that is there, so that no node ever makes another; and it names the claim that has the volume now.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume, type LogicalVolumeSpec } from "../../api/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { isRemoving, presentBytes } from "../volume/layout-facts.ts";
import { readLayout } from "../volume/new-layout.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { sizesOfRecords } from "../volume/volume-record.ts";

export interface TendingLogicalVolume {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "logicalVolumes">;
}

/** Whether it was made again. Idempotent; `layout` may come from a cache. Throws KubeError. */
export async function tendLogicalVolume(
  { client, caches }: TendingLogicalVolume,
  layout: FilesystemLayout,
): Promise<boolean> {
  const existing = caches.logicalVolumes.store.get(layout.metadata.name);
  if (existing === undefined) return restore(client, layout);
  if (isOfClaim(existing, layout)) return false;
  await tellClaim(client, existing, layout);
  return false;
}

function isOfClaim({ spec }: LogicalVolume, layout: FilesystemLayout): boolean {
  return layout.spec.claimRef === undefined || layout.spec.claimRef.uid === spec.claimRef?.uid;
}

async function restore(client: KubeClient, { metadata: { name, uid } }: FilesystemLayout): Promise<boolean> {
  // The caches are filled apart: of a volume that is deleted the LogicalVolume may have gone from its cache first.
  const layout = await readLayout(client, name);
  if (layout === undefined || layout.metadata.uid !== uid || isRemoving(layout)) return false;
  const spec = specOf(layout);
  if (spec === undefined) return false;
  const logicalVolume: LogicalVolume = { apiVersion: API_VERSION, kind: "LogicalVolume", metadata: { name }, spec };
  try {
    await client.create("rebuild/logical-volume", LOGICAL_VOLUMES, logicalVolume);
    return true;
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
    return false;
  }
}

/** Undefined: the layout does not say where the volume is. */
function specOf(layout: FilesystemLayout): LogicalVolumeSpec | undefined {
  const { nodeName, claimRef, members } = layout.spec;
  const source = members?.[0]?.source.logicalVolume;
  if (nodeName === undefined || source === undefined) return undefined;
  const { volumeID, deviceClass } = source;
  // The node says in the status what it has: nothing is made of this one.
  const bytes = presentBytes(layout) ?? sizesOfRecords(layout.metadata.annotations).requestedBytes ?? 0;
  return { nodeName, deviceClass, size: formatQuantity(bytes), volumeID, ...(claimRef && { claimRef }) };
}

async function tellClaim(client: KubeClient, existing: LogicalVolume, { spec }: FilesystemLayout): Promise<void> {
  const { name, uid } = existing.metadata;
  const told = { apiVersion: API_VERSION, kind: LOGICAL_VOLUMES.kind, metadata: { name, uid } };
  await client.apply(
    "rebuild/logical-volume-claim",
    LOGICAL_VOLUMES,
    { ...told, spec: { claimRef: spec.claimRef } },
    { fieldManager: FIELD_MANAGERS.operator, force: true },
  );
}
