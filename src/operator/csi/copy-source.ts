// What a new volume begins as a copy of, or a snapshot is taken of: a volume of LVM on its node, which thin snapshots keep there and in its
// device class.
import type { FilesystemLayout, VolumeMode } from "../../api/filesystem-layout.ts";
import { snapshotUIDOf, volumeUIDOf } from "../../api/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { RECORDS } from "../../api/names.ts";
import { NODE_STORAGES } from "../../api/node-storage.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { noVolume, shownVolumeId } from "../../csi/volume-id.ts";
import type { VolumeContentSource } from "../../gen/csi/v1/csi.ts";
import { formatBytes } from "../../units/quantity.ts";
import { currentBytes, madeVolume } from "../lvm/logical-volume-state.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { readLayout } from "../volume/new-layout.ts";
import { deviceClassOf } from "./node-room.ts";
import { type Binding, refusalOfForeignClaim } from "./volume-binding.ts";
import type { VolumeOrder } from "./volume-order.ts";

/** The name of its LogicalVolume; undefined: the volume begins empty. */
export function sourceNameOf(source: VolumeContentSource | undefined): string | undefined | Refusal {
  if (source === undefined) return undefined;
  const { type } = source;
  if (type === undefined) return invalidArgument("the volume content source is neither a snapshot nor a volume");
  const id = type.$case === "snapshot" ? type.value.snapshotId : type.value.volumeId;
  if (id === "") return invalidArgument(`the ${type.$case} that the volume is to be made of has no id`);
  const uid = type.$case === "snapshot" ? snapshotUIDOf(id) : volumeUIDOf(id);
  return uid === undefined ? noSource(id, `it is no ${type.$case} of ${LOGICAL_VOLUMES.group}`) : id;
}

export interface CopySource {
  readonly logicalVolume: LogicalVolume;
  readonly nodeName: string;
  readonly deviceClass: string;
  readonly sizeBytes: number;
  readonly volumeMode: VolumeMode;
  /** Undefined: nothing tells, or it is a raw block volume. */
  readonly fsType: string | undefined;
}

/** Throws KubeError. */
export async function readCopySource(binding: Binding, name: string): Promise<CopySource | Refusal> {
  const { client } = binding;
  const layout = volumeUIDOf(name) === undefined ? undefined : await readLayout(client, name);
  if (volumeUIDOf(name) !== undefined) {
    const refusal = layout === undefined ? noVolume(name, "it has no FilesystemLayout") : refusalOfLayout(layout);
    if (refusal !== undefined) return refusal;
    const foreign = layout && (await refusalOfForeignClaim(binding, layout));
    if (foreign !== undefined) return foreign;
  }
  const logicalVolume = await client.get(LOGICAL_VOLUMES, { name });
  if (logicalVolume === undefined || logicalVolume.spec.state === "Removed")
    return noSource(name, "it has no LogicalVolume, or that is being removed");
  if (madeVolume(logicalVolume) === undefined) return new Refusal("UNAVAILABLE", `${name} is not made yet; ask again`);
  const { nodeName, deviceClass } = logicalVolume.spec;
  const found = deviceClassOf(await client.get(NODE_STORAGES, { name: nodeName }), { backend: "lvm", deviceClass });
  if (found !== undefined && found.thinPool === undefined)
    return new Refusal(
      "FAILED_PRECONDITION",
      `${name} is in device class ${deviceClass} of node ${nodeName}, which is thick: snapshots and clones need a class of a thin pool`,
    );
  const fsType = layout?.spec.fsType ?? logicalVolume.metadata.annotations?.[RECORDS.fsType];
  const { volumeMode = "Filesystem" } = layout?.spec ?? logicalVolume.spec;
  return { logicalVolume, nodeName, deviceClass, sizeBytes: currentBytes(logicalVolume), volumeMode, fsType };
}

function refusalOfLayout(layout: FilesystemLayout): Refusal | undefined {
  const { name } = layout.metadata;
  if (isRemoving(layout)) return noVolume(name, "it is being deleted");
  if (layout.spec.backend === "lvm") return undefined;
  return new Refusal(
    "FAILED_PRECONDITION",
    `${name} is of the backend ${layout.spec.backend}; snapshots and clones are the backend lvm's, in classes of thin pools`,
  );
}

/** Why this order cannot be a copy of that. */
export function refusalOfCopy(source: CopySource, order: VolumeOrder): Refusal | undefined {
  const { name } = source.logicalVolume.metadata;
  if (order.requestedBytes < source.sizeBytes)
    return new Refusal(
      "OUT_OF_RANGE",
      `${name} has ${formatBytes(source.sizeBytes)} now, and a copy of ${formatBytes(order.requestedBytes)} is asked for; request at least as much`,
    );
  if (order.deviceClass !== undefined && order.deviceClass !== source.deviceClass)
    return invalidArgument(
      `${name} is in device class ${source.deviceClass}, and stays in it with its copies; asked for is ${order.deviceClass}`,
    );
  if (source.volumeMode !== order.volumeMode)
    return invalidArgument(
      `${name} has volumeMode ${source.volumeMode}, as its copies have; asked for is ${order.volumeMode}`,
    );
  if (source.fsType !== undefined && source.fsType !== order.fsType)
    return invalidArgument(
      `${name} is formatted as ${source.fsType}, and asked for is ${order.fsType}; use a StorageClass with csi.storage.k8s.io/fstype: ${source.fsType}`,
    );
  return undefined;
}

function noSource(id: string, why: string): Refusal {
  return new Refusal("NOT_FOUND", `there is no "${shownVolumeId(id)}" to copy: ${why}`);
}
