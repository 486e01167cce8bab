// DeleteVolume: asks the node to remove the members, waits a while for its word, and only then deletes the objects. The
// layout goes last, so that a repeated call resumes wherever the last one ended.
import { FILESYSTEMS } from "../../api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import { FIELD_MANAGERS } from "../../api/names.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { DeleteVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { NODES, PERSISTENT_VOLUMES } from "../../kube/resources.ts";
import { isRemoved } from "../volume/layout-facts.ts";
import { newLayout, removedMembers } from "../volume/layout-fields.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { isIncomplete, isOurVolume, recordOfPersistentVolume } from "../volume/volume-record.ts";
import { CACHE_WAIT_LIMIT_MS } from "./create-volume.ts";
import { type Binding, refusalOfDeletion } from "./volume-binding.ts";

/** Well under csi-provisioner's own timeout of 30 s, after which it would ask again anyway. */
export const REMOVAL_WAIT_LIMIT_MS = 8000;

export interface Deleting extends Binding {
  /** How long one call waits for the node. */
  readonly waitLimitMs: number;
  readonly layouts: LayoutWriter;
  readonly watch: LayoutWatch;
}

export async function deleteVolume(deleting: Deleting, volumeId: string): Promise<DeleteVolumeResponse | Refusal> {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  // An id that is no handle of ours names nothing that we could have made.
  if (volumeUIDOf(volumeId) === undefined) return {};
  const refusal = await refusalOfDeletion(deleting, volumeId);
  if (refusal !== undefined) return refusal;
  const layout = await findLayout(deleting.client, volumeId);
  if (layout === undefined || layout instanceof Refusal) return layout ?? {};

  const asked = await deleting.layouts.update("delete-volume/ask-removal", layout, (current) =>
    current.spec.members?.every(({ state }) => state === "Removed") ? undefined : { members: removedMembers(current) },
  );
  if (asked === undefined) return {};
  const pending = await waitForRemoval(deleting, asked);
  if (pending !== undefined) return pending;
  await deleteObjects(deleting.client, asked);
  await deleting.watch.untilCached(volumeId, false, CACHE_WAIT_LIMIT_MS);
  return {};
}

/** The layout; where somebody has deleted it, a new one from the PersistentVolume, since the data is still on the node. */
async function findLayout(client: KubeClient, handle: string): Promise<FilesystemLayout | undefined | Refusal> {
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout !== undefined) return layout;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  const volume = volumes.items.find((one) => isOurVolume(one) && one.spec.csi?.volumeHandle === handle);
  if (volume === undefined) return undefined;
  const record = recordOfPersistentVolume(volume);
  if (isIncomplete(record))
    return new Refusal(
      "FAILED_PRECONDITION",
      `${handle}: its FilesystemLayout is gone and PersistentVolume ${volume.metadata.name} lacks ${record.missing.join(", ")}: where its data is cannot be known`,
    );
  return client.apply("delete-volume/layout-from-record", FILESYSTEM_LAYOUTS, newLayout(record, undefined, "Removed"), {
    fieldManager: FIELD_MANAGERS.operator,
    force: true,
  });
}

/** Undefined once nothing of the volume is left on its node. */
async function waitForRemoval(
  { client, watch, waitLimitMs }: Deleting,
  layout: FilesystemLayout,
): Promise<Refusal | undefined> {
  const { nodeName } = layout.spec;
  if (nodeName === undefined || (await client.get(NODES, { name: nodeName })) === undefined) return undefined;
  const last = await watch.until(layout, isRemoved, waitLimitMs);
  if (last === undefined || isRemoved(last)) return undefined;
  const stalled = last.status?.conditions?.find(({ type, status }) => type === "Stalled" && status === "True");
  const why = stalled === undefined ? "" : `; the node says: ${stalled.message}`;
  return new Refusal(
    "ABORTED",
    `${layout.metadata.name}: node ${nodeName} has not confirmed within ${waitLimitMs} ms that the data is removed${why}; it goes on, ask again`,
  );
}

async function deleteObjects(client: KubeClient, layout: FilesystemLayout): Promise<void> {
  const { namespace, name, uid } = layout.spec.claimRef ?? {};
  if (namespace !== undefined && name !== undefined) {
    const filesystem = await client.get(FILESYSTEMS, { namespace, name });
    // A new claim of the same name has its own Filesystem under this name.
    if (filesystem !== undefined && filesystem.spec.claimRef?.uid === uid)
      await client.delete(
        "delete-volume/filesystem",
        FILESYSTEMS,
        { namespace, name },
        { uid: filesystem.metadata.uid },
      );
  }
  await client.delete(
    "delete-volume/layout",
    FILESYSTEM_LAYOUTS,
    { name: layout.metadata.name },
    { uid: layout.metadata.uid },
  );
}
