// A CreateSnapshotRequest, checked and turned into the snapshot that is asked for. Pure.
import { snapshotIdOf } from "../../api/identity.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { handleOf } from "../../csi/volume-id.ts";
import type { CreateSnapshotRequest } from "../../gen/csi/v1/csi.ts";
import { refusalOfName, uidOfName } from "./named-uid.ts";

export interface SnapshotOrder {
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

export function snapshotOrderOf({ name, sourceVolumeId, parameters }: CreateSnapshotRequest): SnapshotOrder | Refusal {
  const refusal = refusalOfName("snapshot", name);
  if (refusal !== undefined) return refusal;
  const source = handleOf(sourceVolumeId);
  if (source instanceof Refusal) return source;
  const unknown = Object.keys(parameters).filter((key) => !SIDECAR_PARAMETERS.includes(key));
  if (unknown.length > 0)
    return invalidArgument(`a VolumeSnapshotClass has no parameters here: ${unknown.sort().join(", ")}`);
  const { uid } = uidOfName(SNAPSHOTTER_PREFIX, name, `snapshot ${name}`);
  return { snapshotId: snapshotIdOf(uid), source };
}
