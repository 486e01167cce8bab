// CreateSnapshot: a LogicalVolume that begins as a thin snapshot of the volume's, and is only ever read. Repeated after a crash at any line
// it ends in the same object and the same answer.
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CreateSnapshotRequest, CreateSnapshotResponse } from "../../gen/csi/v1/csi.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { currentBytes } from "../lvm/logical-volume-state.ts";
import { type MakingLogicalVolume, makeLogicalVolume } from "../lvm/make-logical-volume.ts";
import { readCopySource } from "./copy-source.ts";
import { type SnapshotOrder, snapshotOrderOf } from "./snapshot-order.ts";
import type { Binding } from "./volume-binding.ts";

export interface Snapshotting extends Binding, MakingLogicalVolume {}

export async function createSnapshot(
  snapshotting: Snapshotting,
  request: CreateSnapshotRequest,
): Promise<CreateSnapshotResponse | Refusal> {
  const order = snapshotOrderOf(request);
  if (order instanceof Refusal) return order;
  const existing = await snapshotting.client.get(LOGICAL_VOLUMES, { name: order.snapshotId });
  const wanted = existing === undefined ? await wantedOf(snapshotting, order) : sameOrRefusal(existing, order);
  if (wanted instanceof Refusal) return wanted;
  const made = await makeLogicalVolume(snapshotting, order.snapshotId, wanted);
  return made instanceof Refusal ? made : responseOf(made);
}

type Wanted = Parameters<typeof makeLogicalVolume>[2];

async function wantedOf(snapshotting: Snapshotting, { source }: SnapshotOrder): Promise<Wanted | Refusal> {
  const found = await readCopySource(snapshotting, source);
  if (found instanceof Refusal) return found;
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

function sameOrRefusal({ metadata, spec }: LogicalVolume, { snapshotId, source }: SnapshotOrder): Wanted | Refusal {
  if (spec.source !== source)
    return new Refusal("ALREADY_EXISTS", `${snapshotId} exists, and is a snapshot of ${spec.source}, not of ${source}`);
  if (spec.state === "Removed")
    return new Refusal("ABORTED", `${snapshotId} is being deleted; try again when it is gone`);
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
