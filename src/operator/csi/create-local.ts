// A volume that lies on one node: its layout, and for the backend lvm the volume of LVM first, which the node's agent makes. Each step
// finds what the last call has left and goes on from there.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import { TOPOLOGY_NODE } from "../../api/names.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { Topology } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { currentBytes, madeVolume } from "../lvm/logical-volume-state.ts";
import { type MakingLogicalVolume, makeLogicalVolume } from "../lvm/make-logical-volume.ts";
import { loopMember, lvmMember, newLayout } from "../volume/layout-fields.ts";
import { makeLayout } from "../volume/new-layout.ts";
import type { VolumeRecord } from "../volume/volume-record.ts";
import { madeMeanwhile } from "./create-span.ts";
import { deviceClassOf } from "./node-room.ts";

export interface LocalOrder {
  readonly record: VolumeRecord;
  readonly nodeName: string;
  /** As the node was chosen by. Undefined: it is to be read. */
  readonly storage: NodeStorage | undefined;
  readonly existing: FilesystemLayout | undefined;
  readonly memberBytes: number;
  /** Undefined: the node's default class. */
  readonly deviceClass: string | undefined;
  /** Of the backend lvm: the LogicalVolume that it begins as a copy of. */
  readonly source: string | undefined;
}

export function nodeTopology(nodeName: string): Topology[] {
  return [{ segments: { [TOPOLOGY_NODE]: nodeName } }];
}

/** The record of the volume that there is then. */
export async function createLoop(
  { client }: { readonly client: KubeClient },
  { record, existing, memberBytes }: LocalOrder,
): Promise<VolumeRecord | Refusal> {
  if (existing !== undefined) return record;
  const layout = newLayout(record, [loopMember(record.handle, memberBytes, "Present")]);
  return (await makeLayout(client, "create-volume/layout", layout)) === undefined
    ? madeMeanwhile(record.handle)
    : record;
}

/** As createLoop; the layout comes last, since it tells everybody that the volume is there. */
export async function createLvm(making: MakingLogicalVolume, order: LocalOrder): Promise<VolumeRecord | Refusal> {
  const { record, existing } = order;
  if (existing !== undefined) return withSource(record, existing);
  const made = await orderLogicalVolume(making, order);
  if (made instanceof Refusal) return made;
  if (made.spec.nodeName !== order.nodeName) return madeMeanwhile(record.handle); // by another operator, elsewhere
  const logicalVolume = madeVolume(made);
  if (logicalVolume === undefined) return new Refusal("ABORTED", `${record.handle} is not made yet; ask again`);
  const created = { ...record, logicalVolume };
  const layout = newLayout(created, [lvmMember(record.handle, currentBytes(made), "Present", logicalVolume)]);
  return (await makeLayout(making.client, "create-volume/layout", layout)) === undefined
    ? madeMeanwhile(record.handle)
    : created;
}

function withSource(record: VolumeRecord, { metadata, spec }: FilesystemLayout): VolumeRecord | Refusal {
  const logicalVolume = spec.members?.[0]?.source.logicalVolume;
  if (logicalVolume !== undefined) return { ...record, logicalVolume };
  const what = `${FILESYSTEM_LAYOUTS.kind} ${metadata.name}`;
  return new Refusal("FAILED_PRECONDITION", `${what} does not say of which logical volume it is`);
}

async function orderLogicalVolume(making: MakingLogicalVolume, order: LocalOrder): Promise<LogicalVolume | Refusal> {
  const { record, nodeName, memberBytes, source } = order;
  const deviceClass = order.deviceClass ?? (await defaultClassOf(making.client, order));
  if (deviceClass instanceof Refusal) return deviceClass;
  const size = formatQuantity(memberBytes);
  const spec = {
    nodeName,
    deviceClass,
    size,
    claimRef: { ...record.claim },
    ...(source !== undefined && { source }),
    ...(record.volumeMode === "Block" && { volumeMode: record.volumeMode }),
  };
  return makeLogicalVolume(making, record.handle, { annotations: {}, spec });
}

async function defaultClassOf(client: KubeClient, { nodeName, storage: known }: LocalOrder): Promise<string | Refusal> {
  const storage = known ?? (await client.get(NODE_STORAGES, { name: nodeName }));
  const name = deviceClassOf(storage, { backend: "lvm", deviceClass: undefined })?.name;
  return (
    name ??
    new Refusal(
      "UNAVAILABLE",
      `node ${nodeName} has not reported its default device class yet (NodeStorage); ask again, or name a class by the parameter deviceClass`,
    )
  );
}
