// DeleteVolume: asks the node to remove the members, waits a while for its word, and only then deletes the objects. The
// layout goes last, so that a repeated call resumes wherever the last one ended.
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import type { DeleteVolumeResponse } from "../../../contracts/gen/csi/v1/csi.ts";
import { volumeUIDOf } from "../../../contracts/identity.ts";
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUMES, type PersistentVolume } from "../../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../../platform/kube/client/client.ts";
import type { Placing } from "../../apply/member-home.ts";
import { deleteSpanMembers } from "../../apply/tear-down-span.ts";
import { dropBlank, type LayoutWriter, makeLayout, readLayout } from "../../apply/volume-objects.ts";
import { isRemoving } from "../../decide/layout-facts.ts";
import { newMember } from "../../decide/members/changed-members.ts";
import type { VolumeChanges } from "../../gather/cache-waits.ts";
import { findMembers } from "../../gather/gather-volume.ts";
import { newLayout, recordedMember } from "../../volumes/layout-fields.ts";
import { isIncomplete, isOurVolume, recordOfPersistentVolume, type VolumeRecord } from "../../volumes/volume-record.ts";
import { CACHE_WAIT_LIMIT_MS } from "../create/create-volume.ts";
import {
  type Binding,
  describeMount,
  isLost,
  isMountedSince,
  presentMountNode,
  requireDeletable,
} from "../volume-checks.ts";
import { isNodeGone, type RemovingLocal, removalOf, removeLocal } from "./remove-local.ts";
import { askRemoval, removeVolume } from "./remove-volume.ts";

export interface Deleting extends Binding, RemovingLocal, Placing {
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
}

/** Throws Refusal and KubeError. */
export async function deleteVolume(deleting: Deleting, volumeId: string): Promise<DeleteVolumeResponse> {
  if (volumeId === "") throw invalidArgument("the volume id is missing");
  // An id that is not a handle of ours names nothing that we could have made.
  if (volumeUIDOf(volumeId) === undefined) return {};
  await requireDeletable(deleting, volumeId);
  const layout = await findLayout(deleting.client, volumeId);
  if (layout === undefined) {
    await dropBlank(deleting.client, volumeId);
    return {};
  }
  await (layout.spec.backend === "span" ? deleteSpan(deleting, layout) : deleteLocal(deleting, layout));
  await deleting.watch.untilCached(volumeId, false, CACHE_WAIT_LIMIT_MS);
  return {};
}

async function deleteLocal(deleting: Deleting, layout: FilesystemLayout): Promise<void> {
  const asked = await askRemoval(deleting.layouts, layout, () => true);
  if (asked === undefined) return;
  if (!isRemoving(asked))
    throw new Refusal("ABORTED", `${layout.metadata.name}: its FilesystemLayout was rebuilt concurrently; retry`);
  await removeLocal(deleting, asked, isNodeGone);
}

async function deleteSpan(deleting: Deleting, layout: FilesystemLayout): Promise<void> {
  const { name: handle } = layout.metadata;
  const held = await presentMountNode(deleting.client, layout);
  if (held !== undefined)
    throw new Refusal(
      "FAILED_PRECONDITION",
      `${handle} is ${describeMount(layout, held)}; it is deleted once it is not`,
    );
  const left = await removeVolume(
    deleting,
    layout,
    (current) => !isMountedSince(layout, current),
    (_client, ...volume) => deleteSpanMembers(deleting, ...volume),
  );
  if (left !== undefined) throw new Refusal("ABORTED", `${handle}: ${left}; it goes on, ask again`);
}

/**
 * The layout; where a user has deleted it, a new one from the PersistentVolume, since the data is still on the node.
 * For a volume whose creation has not ended, a new one from its LogicalVolume.
 */
async function findLayout(client: KubeClient, handle: string): Promise<FilesystemLayout | undefined> {
  const layout = await readLayout(client, handle);
  if (layout !== undefined) return layout;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  const volume = volumes.items.find((one) => isOurVolume(one) && one.spec.csi?.volumeHandle === handle);
  if (volume === undefined) return removalOf({ client }, handle);
  // The members of a span are found by their labels.
  const record = recordOfPersistentVolume(volume);
  if (isIncomplete(record))
    throw new Refusal(
      "FAILED_PRECONDITION",
      `${handle}: its FilesystemLayout is gone and PersistentVolume ${volume.metadata.name} lacks ${record.missing.join(", ")}: where its data is cannot be known`,
    );
  await refuseAttached(client, record, volume);
  return layoutFromRecord(client, record);
}

/** Without its layout only its node knows whether the volume is mounted there: the reconciler makes the layout again, and asks. */
async function refuseAttached(
  client: KubeClient,
  { backend, handle }: VolumeRecord,
  volume: PersistentVolume,
): Promise<void> {
  if (backend !== "span") return;
  for (const nodeName of (await findMembers(client, volume)).nodeNames)
    if (!(await isLost(client, nodeName)))
      throw new Refusal(
        "ABORTED",
        `${handle}: it is attached to node ${nodeName}, and its FilesystemLayout is being rebuilt; retry`,
      );
}

async function layoutFromRecord(client: KubeClient, record: VolumeRecord): Promise<FilesystemLayout> {
  const { backend, handle } = record;
  const member = backend === "span" ? newMember(handle, 0, undefined) : recordedMember(record, "Removed");
  const removed = newLayout(record, [{ ...member, state: "Removed" }]);
  const made = await makeLayout(client, "delete-volume/layout-from-record", removed);
  if (made === undefined)
    throw new Refusal("ABORTED", `${handle}: its FilesystemLayout was rebuilt concurrently; retry`);
  return made;
}
