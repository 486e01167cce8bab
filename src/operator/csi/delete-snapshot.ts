// DeleteSnapshot: asks the node to remove what it has of the snapshot, waits a while for its word, and only then deletes the object, so that
// a repeated call resumes wherever the last one ended.
import { snapshotUIDOf } from "../../api/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { DeleteSnapshotResponse } from "../../gen/csi/v1/csi.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { CacheWait } from "../volume/cache-wait.ts";
import { isNodeGone } from "./remove-local.ts";

export interface DeletingSnapshot {
  readonly client: KubeClient;
  readonly logicalVolumes: Reflector<LogicalVolume>;
  readonly logicalVolumeChange: CacheWait<LogicalVolume>;
  readonly events: EventRecorder;
  /** How long one call waits for the node. */
  readonly removalWaitLimitMs: number;
}

export async function deleteSnapshot(
  deleting: DeletingSnapshot,
  snapshotId: string,
): Promise<DeleteSnapshotResponse | Refusal> {
  if (snapshotId === "") return invalidArgument("the snapshot id is missing");
  // An id that is none of ours names nothing that we could have made.
  if (snapshotUIDOf(snapshotId) === undefined) return {};
  const { client } = deleting;
  const existing = await client.get(LOGICAL_VOLUMES, { name: snapshotId });
  if (existing === undefined) return {};
  const pending = (await isNodeGone(client, existing.spec.nodeName))
    ? reportLeftBehind(deleting, existing)
    : await removeFromNode(deleting, existing);
  if (pending !== undefined) return pending;
  await client.delete("delete-snapshot/logical-volume", LOGICAL_VOLUMES, { name: snapshotId }, uidOf(existing));
  return {};
}

function uidOf({ metadata: { uid } }: LogicalVolume): { readonly uid: string | undefined } {
  return { uid };
}

/** Undefined once the node has said that nothing is left, or the object is gone. */
async function removeFromNode(deleting: DeletingSnapshot, existing: LogicalVolume): Promise<Refusal | undefined> {
  const { name, uid } = existing.metadata;
  const isOurs = (one: LogicalVolume | undefined): one is LogicalVolume => one?.metadata.uid === uid;
  const isRemoved = ({ status }: LogicalVolume): boolean => status?.state === "Removed";
  // The cache may be ahead of what was read: what it shows already is no change that could be waited for.
  const cached = deleting.logicalVolumes.store.get(name);
  if (isRemoved(existing) || (isOurs(cached) && isRemoved(cached))) return undefined;
  // Until the cache has shown it, what it says of the name is of one before it.
  let isShown = isOurs(cached);
  let isDone = false;
  const changed = deleting.logicalVolumeChange(
    name,
    (one) => {
      isShown ||= isOurs(one);
      isDone = isShown && (!isOurs(one) || isRemoved(one));
      return isDone;
    },
    deleting.removalWaitLimitMs,
  );
  if (existing.spec.state !== "Removed") await askRemoval(deleting.client, existing);
  await changed;
  if (isDone) return undefined;
  return new Refusal(
    "ABORTED",
    `${name}: node ${existing.spec.nodeName} has not confirmed within ${deleting.removalWaitLimitMs} ms that it is removed; it goes on, ask again`,
  );
}

async function askRemoval(client: KubeClient, { metadata: { name, uid } }: LogicalVolume): Promise<void> {
  const asked = { apiVersion: API_VERSION, kind: LOGICAL_VOLUMES.kind, metadata: { name, uid } };
  try {
    await client.apply(
      "delete-snapshot/ask-removal",
      LOGICAL_VOLUMES,
      { ...asked, spec: { state: "Removed" } },
      { fieldManager: FIELD_MANAGERS.operator, force: true },
    );
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error;
  }
}

function reportLeftBehind({ events }: DeletingSnapshot, snapshot: LogicalVolume): undefined {
  const { metadata, spec, status } = snapshot;
  if (status?.state === "Removed") return;
  events.record(
    { ...snapshot, kind: LOGICAL_VOLUMES.kind },
    "Warning",
    "NodeLost",
    `${metadata.name} is deleted without the word of node ${spec.nodeName}, which is gone: nothing was removed there, and if it returns, ` +
      `${status?.volumeID ?? metadata.uid} on it belongs to no snapshot any more`,
  );
}
