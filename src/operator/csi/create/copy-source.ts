// What a new volume begins as a copy of, or a snapshot is taken of: a volume of LVM on its node, which thin snapshots keep there and in its
// device class.
import { invalidArgument, Refusal } from "../../../contracts/csi/refusal.ts";
import { noVolume, volumeUIDOf } from "../../../contracts/identity.ts";
import type { FilesystemLayout, VolumeMode } from "../../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../../contracts/kinds/logical-volume.ts";
import { NODE_STORAGES } from "../../../contracts/kinds/node-storage.ts";
import { RECORDS } from "../../../contracts/names.ts";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { readLayout } from "../../apply/volume-objects.ts";
import { isRemoving } from "../../decide/layout-facts.ts";
import { currentBytes, madeVolume } from "../../lvm/logical-volume-state.ts";
import { noSource, type VolumeOrder } from "../requests/volume-order.ts";
import { type Binding, requireOwnClaim } from "../volume-checks.ts";
import { deviceClassOf } from "./placement.ts";

export interface CopySource {
  readonly logicalVolume: LogicalVolume;
  readonly nodeName: string;
  readonly deviceClass: string;
  readonly sizeBytes: number;
  readonly volumeMode: VolumeMode;
  /** Undefined: nothing records it, or it is a raw block volume. */
  readonly fsType: string | undefined;
}

/** Throws Refusal and KubeError. */
export async function readCopySource(binding: Binding, name: string): Promise<CopySource> {
  const { client } = binding;
  const layout = volumeUIDOf(name) === undefined ? undefined : await readCopiedLayout(binding, name);
  const logicalVolume = await client.get(LOGICAL_VOLUMES, { name });
  if (logicalVolume === undefined || logicalVolume.spec.state === "Removed")
    throw noSource(name, "it has no LogicalVolume, or that is being removed");
  if (madeVolume(logicalVolume) === undefined) throw new Refusal("UNAVAILABLE", `${name} is not made yet; ask again`);
  const { nodeName, deviceClass } = logicalVolume.spec;
  const found = deviceClassOf(await client.get(NODE_STORAGES, { name: nodeName }), { backend: "lvm", deviceClass });
  if (found !== undefined && found.thinPool === undefined)
    throw new Refusal(
      "FAILED_PRECONDITION",
      `${name} is in device class ${deviceClass} of node ${nodeName}, which is thick: snapshots and clones need a class of a thin pool`,
    );
  const fsType = layout?.spec.fsType ?? logicalVolume.metadata.annotations?.[RECORDS.fsType];
  const { volumeMode = "Filesystem" } = layout?.spec ?? logicalVolume.spec;
  return { logicalVolume, nodeName, deviceClass, sizeBytes: currentBytes(logicalVolume), volumeMode, fsType };
}

/** Of a volume, and not of a snapshot. */
async function readCopiedLayout(binding: Binding, name: string): Promise<FilesystemLayout> {
  const layout = await readLayout(binding.client, name);
  if (layout === undefined) throw noVolume(name, "it has no FilesystemLayout");
  if (isRemoving(layout)) throw noVolume(name, "it is being deleted");
  if (layout.spec.backend !== "lvm")
    throw new Refusal(
      "FAILED_PRECONDITION",
      `${name} is of the backend ${layout.spec.backend}; snapshots and clones are the backend lvm's, in classes of thin pools`,
    );
  await requireOwnClaim(binding, layout);
  return layout;
}

/** Whether this order can be a copy of that. Throws Refusal. */
export function requireCopyOf(source: CopySource, order: VolumeOrder): void {
  const { name } = source.logicalVolume.metadata;
  if (order.requestedBytes < source.sizeBytes)
    throw new Refusal(
      "OUT_OF_RANGE",
      `${name} has ${formatBytes(source.sizeBytes)} now, and a copy of ${formatBytes(order.requestedBytes)} is asked for; request at least as much`,
    );
  if (order.deviceClass !== undefined && order.deviceClass !== source.deviceClass)
    throw invalidArgument(
      `${name} is in device class ${source.deviceClass}, and stays in it with its copies; asked for is ${order.deviceClass}`,
    );
  if (source.volumeMode !== order.volumeMode)
    throw invalidArgument(
      `${name} has volumeMode ${source.volumeMode}, as its copies have; asked for is ${order.volumeMode}`,
    );
  if (source.fsType !== undefined && source.fsType !== order.fsType)
    throw invalidArgument(
      `${name} is formatted as ${source.fsType}, and asked for is ${order.fsType}; use a StorageClass with csi.storage.k8s.io/fstype: ${source.fsType}`,
    );
}
