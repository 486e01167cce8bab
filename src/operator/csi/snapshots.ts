// CreateSnapshot: a LogicalVolume that begins as a thin snapshot of the volume's, and is only ever read. DeleteSnapshot: asks the node to
// remove what it has of it, waits a while for its word, and only then deletes the object. Repeated after a crash at any line each resumes
// wherever the last call ended, with the same answer.
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import type {
  CreateSnapshotRequest,
  CreateSnapshotResponse,
  DeleteSnapshotResponse,
} from "../../contracts/gen/csi/v1/csi.ts";
import { handleOf, snapshotIdOf, snapshotUIDOf } from "../../contracts/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS, RECORDS } from "../../contracts/names.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { CacheWait } from "../gather/cache-waits.ts";
import { currentBytes } from "../lvm/logical-volume-state.ts";
import { type MakingLogicalVolume, makeLogicalVolume } from "../lvm/make-logical-volume.ts";
import { readCopySource } from "./create/copy-source.ts";
import { isNodeGone } from "./remove/remove-local.ts";
import { requireName, uidOfName } from "./requests/volume-order.ts";
import type { Binding } from "./volume-checks.ts";

export interface Snapshotting extends Binding, MakingLogicalVolume {}

/** Throws Refusal and KubeError. */
export async function createSnapshot(
  snapshotting: Snapshotting,
  request: CreateSnapshotRequest,
): Promise<CreateSnapshotResponse> {
  const order = snapshotOrderOf(request);
  const existing = await snapshotting.client.get(LOGICAL_VOLUMES, { name: order.snapshotId });
  const wanted = existing === undefined ? await wantedOf(snapshotting, order) : sameOf(existing, order);
  return responseOf(await makeLogicalVolume(snapshotting, order.snapshotId, wanted));
}

type Wanted = Parameters<typeof makeLogicalVolume>[2];

async function wantedOf(snapshotting: Snapshotting, { source }: SnapshotOrder): Promise<Wanted> {
  const found = await readCopySource(snapshotting, source);
  const { nodeName, deviceClass, sizeBytes, volumeMode, fsType, logicalVolume } = found;
  const { claimRef } = logicalVolume.spec;
  const size = formatQuantity(sizeBytes);
  return {
    // Of the volume nothing may be left when it is restored.
    annotations: fsType === undefined ? {} : { [RECORDS.fsType]: fsType },
    spec: {
      nodeName,
      deviceClass,
      size,
      source,
      accessType: "ro",
      ...(claimRef && { claimRef }),
      ...(volumeMode === "Block" && { volumeMode }),
    },
  };
}

function sameOf({ metadata, spec }: LogicalVolume, { snapshotId, source }: SnapshotOrder): Wanted {
  if (spec.source !== source)
    throw new Refusal("ALREADY_EXISTS", `${snapshotId} exists, and is a snapshot of ${spec.source}, not of ${source}`);
  if (spec.state === "Removed")
    throw new Refusal("ABORTED", `${snapshotId} is being deleted; try again when it is gone`);
  return { annotations: metadata.annotations ?? {}, spec };
}

function responseOf(made: LogicalVolume): CreateSnapshotResponse {
  const { name, creationTimestamp } = made.metadata;
  return {
    snapshot: {
      snapshotId: name,
      sourceVolumeId: made.spec.source ?? "",
      sizeBytes: currentBytes(made),
      creationTime: creationTimestamp === undefined ? undefined : new Date(creationTimestamp),
      readyToUse: true,
      groupSnapshotId: "",
    },
  };
}

interface SnapshotOrder {
  readonly snapshotId: string;
  /** The volume's handle, which its LogicalVolume has for its name. */
  readonly source: string;
}

/** csi-snapshotter's own prefix, before the VolumeSnapshot's UID. */
const SNAPSHOTTER_PREFIX = "snapshot-";
/** What csi-snapshotter adds with --extra-create-metadata. */
const SIDECAR_PARAMETERS = [
  "csi.storage.k8s.io/volumesnapshot/name",
  "csi.storage.k8s.io/volumesnapshot/namespace",
  "csi.storage.k8s.io/volumesnapshotcontent/name",
];

/** Throws Refusal. */
export function snapshotOrderOf({ name, sourceVolumeId, parameters }: CreateSnapshotRequest): SnapshotOrder {
  requireName("snapshot", name);
  const source = handleOf(sourceVolumeId);
  const unknown = Object.keys(parameters).filter((key) => !SIDECAR_PARAMETERS.includes(key));
  if (unknown.length > 0)
    throw invalidArgument(`a VolumeSnapshotClass has no parameters here: ${unknown.sort().join(", ")}`);
  const { uid } = uidOfName(SNAPSHOTTER_PREFIX, name, `snapshot ${name}`);
  return { snapshotId: snapshotIdOf(uid), source };
}

export interface DeletingSnapshot {
  readonly client: KubeClient;
  readonly logicalVolumes: Reflector<LogicalVolume>;
  readonly logicalVolumeChange: CacheWait<LogicalVolume>;
  readonly events: EventRecorder;
  /** How long one call waits for the node. */
  readonly removalWaitLimitMs: number;
}

/** Throws Refusal and KubeError. */
export async function deleteSnapshot(deleting: DeletingSnapshot, snapshotId: string): Promise<DeleteSnapshotResponse> {
  if (snapshotId === "") throw invalidArgument("the snapshot id is missing");
  // An id that is not one of ours names nothing that we could have made.
  if (snapshotUIDOf(snapshotId) === undefined) return {};
  const { client } = deleting;
  const existing = await client.get(LOGICAL_VOLUMES, { name: snapshotId });
  if (existing === undefined) return {};
  if (await isNodeGone(client, existing.spec.nodeName)) reportLeftBehind(deleting, existing);
  else await removeFromNode(deleting, existing);
  await client.delete("delete-snapshot/logical-volume", LOGICAL_VOLUMES, { name: snapshotId }, uidOf(existing));
  return {};
}

function uidOf({ metadata: { uid } }: LogicalVolume): { readonly uid: string | undefined } {
  return { uid };
}

/** Until the node has said that nothing is left, or the object is gone. */
async function removeFromNode(deleting: DeletingSnapshot, existing: LogicalVolume): Promise<void> {
  const { name, uid } = existing.metadata;
  const isOurs = (one: LogicalVolume | undefined): one is LogicalVolume => one?.metadata.uid === uid;
  const isRemoved = ({ status }: LogicalVolume): boolean => status?.state === "Removed";
  // The cache may be ahead of what was read: a state that it shows already brings no change to wait for.
  const cached = deleting.logicalVolumes.store.get(name);
  if (isRemoved(existing) || (isOurs(cached) && isRemoved(cached))) return;
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
  if (isDone) return;
  throw new Refusal(
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

function reportLeftBehind({ events }: DeletingSnapshot, snapshot: LogicalVolume): void {
  const { metadata, spec, status } = snapshot;
  if (status?.state === "Removed") return;
  events.record(
    { ...snapshot, kind: LOGICAL_VOLUMES.kind },
    "Warning",
    "NodeLost",
    `Deleted. Node ${spec.nodeName} is gone and still has the data: if it returns, remove ${status?.volumeID ?? metadata.uid} there by hand`,
  );
}
