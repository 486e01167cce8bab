// DeleteVolume: asks the node to remove the members, waits a while for its word, and only then deletes the objects. The
// layout goes last, so that a repeated call resumes wherever the last one ended.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { DeleteVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { PERSISTENT_VOLUMES, type PersistentVolume } from "../../kube/resources.ts";
import { newMember } from "../member/decide-members.ts";
import { findMembers } from "../member/find-members.ts";
import type { Placing } from "../member/member-home.ts";
import { deleteSpanMembers } from "../member/tear-down-span.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { newLayout, recordedMember } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { dropBlank, makeLayout, readLayout } from "../volume/new-layout.ts";
import type { VolumeChanges } from "../volume/volume-changes.ts";
import { isIncomplete, isOurVolume, recordOfPersistentVolume, type VolumeRecord } from "../volume/volume-record.ts";
import { removalOf } from "./abandon-lvm.ts";
import { CACHE_WAIT_LIMIT_MS } from "./create-volume.ts";
import { describeHolder, holdingNode, isHeldSince, isLost } from "./holding-node.ts";
import { isNodeGone, type RemovingLocal, removeLocal } from "./remove-local.ts";
import { askRemoval, removeVolume } from "./remove-volume.ts";
import { type Binding, refusalOfDeletion } from "./volume-binding.ts";

export interface Deleting extends Binding, RemovingLocal, Placing {
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
}

export async function deleteVolume(deleting: Deleting, volumeId: string): Promise<DeleteVolumeResponse | Refusal> {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  // An id that is no handle of ours names nothing that we could have made.
  if (volumeUIDOf(volumeId) === undefined) return {};
  const refusal = await refusalOfDeletion(deleting, volumeId);
  if (refusal !== undefined) return refusal;
  const layout = await findLayout(deleting.client, volumeId);
  if (layout === undefined) await dropBlank(deleting.client, volumeId);
  if (layout === undefined || layout instanceof Refusal) return layout ?? {};
  const pending =
    layout.spec.backend === "span" ? await deleteSpan(deleting, layout) : await deleteLocal(deleting, layout);
  if (pending !== undefined) return pending;
  await deleting.watch.untilCached(volumeId, false, CACHE_WAIT_LIMIT_MS);
  return {};
}

async function deleteLocal(deleting: Deleting, layout: FilesystemLayout): Promise<Refusal | undefined> {
  const asked = await askRemoval(deleting.layouts, layout, () => true);
  if (asked === undefined) return undefined;
  if (!isRemoving(asked))
    return new Refusal("ABORTED", `${layout.metadata.name}: its layout was made again meanwhile; ask again`);
  return removeLocal(deleting, asked, isNodeGone);
}

async function deleteSpan(deleting: Deleting, layout: FilesystemLayout): Promise<Refusal | undefined> {
  const { name: handle } = layout.metadata;
  const held = await holdingNode(deleting.client, layout);
  if (held !== undefined)
    return new Refusal(
      "FAILED_PRECONDITION",
      `${handle} is ${describeHolder(layout, held)}; it is deleted once it is not`,
    );
  const left = await removeVolume(
    deleting,
    layout,
    (current) => !isHeldSince(layout, current),
    (_client, ...volume) => deleteSpanMembers(deleting, ...volume),
  );
  return left === undefined ? undefined : new Refusal("ABORTED", `${handle}: ${left}; it goes on, ask again`);
}

/**
 * The layout; where somebody has deleted it, a new one from the PersistentVolume, since the data is still on the node. Of a volume that
 * was only begun a LogicalVolume tells.
 */
async function findLayout(client: KubeClient, handle: string): Promise<FilesystemLayout | undefined | Refusal> {
  const layout = await readLayout(client, handle);
  if (layout !== undefined) return layout;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  const volume = volumes.items.find((one) => isOurVolume(one) && one.spec.csi?.volumeHandle === handle);
  if (volume === undefined) return removalOf({ client }, handle);
  // The members of a span are found by their labels.
  const record = recordOfPersistentVolume(volume);
  if (isIncomplete(record))
    return new Refusal(
      "FAILED_PRECONDITION",
      `${handle}: its FilesystemLayout is gone and PersistentVolume ${volume.metadata.name} lacks ${record.missing.join(", ")}: where its data is cannot be known`,
    );
  return (await refusalOfAttached(client, record, volume)) ?? layoutFromRecord(client, record);
}

/** Without its layout only its node knows whether the volume is mounted there: the reconciler makes the layout again, and asks. */
async function refusalOfAttached(
  client: KubeClient,
  { backend, handle }: VolumeRecord,
  volume: PersistentVolume,
): Promise<Refusal | undefined> {
  if (backend !== "span") return undefined;
  for (const nodeName of (await findMembers(client, volume)).nodeNames)
    if (!(await isLost(client, nodeName)))
      return new Refusal(
        "ABORTED",
        `${handle}: it is attached to node ${nodeName}, and its FilesystemLayout is gone; that is being made again, ask again`,
      );
  return undefined;
}

async function layoutFromRecord(client: KubeClient, record: VolumeRecord): Promise<FilesystemLayout | Refusal> {
  const { backend, handle } = record;
  const member = backend === "span" ? newMember(handle, 0, undefined) : recordedMember(record, "Removed");
  const removed = newLayout(record, [{ ...member, state: "Removed" }]);
  const made = await makeLayout(client, "delete-volume/layout-from-record", removed);
  return made ?? new Refusal("ABORTED", `${handle}: its FilesystemLayout was made again meanwhile; ask again`);
}
