// A volume that lies on one node: its layout, and for the backend lvm the volume of LVM first, which the node's agent makes. Each step
// finds what the last call has left and goes on from there.
import { Refusal } from "../../../contracts/csi/refusal.ts";
import type { Topology } from "../../../contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import type { LogicalVolume } from "../../../contracts/kinds/logical-volume.ts";
import { NODE_STORAGES, type NodeStorage } from "../../../contracts/kinds/node-storage.ts";
import { TOPOLOGY_NODE } from "../../../contracts/names.ts";
import { formatQuantity } from "../../../contracts/quantities/quantity.ts";
import type { KubeClient } from "../../../platform/kube/client/client.ts";
import { makeLayout } from "../../apply/volume-objects.ts";
import { currentBytes, madeVolume } from "../../lvm/logical-volume-state.ts";
import { type MakingLogicalVolume, makeLogicalVolume } from "../../lvm/make-logical-volume.ts";
import { loopMember, lvmMember, newLayout } from "../../volumes/layout-fields.ts";
import type { VolumeRecord } from "../../volumes/volume-record.ts";
import { madeMeanwhile } from "./create-span.ts";
import { deviceClassOf } from "./placement.ts";

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

/** The record of the volume that there is then. Throws Refusal and KubeError. */
export async function createLoop(
  { client }: { readonly client: KubeClient },
  { record, existing, memberBytes }: LocalOrder,
): Promise<VolumeRecord> {
  if (existing !== undefined) return record;
  const layout = newLayout(record, [loopMember(record.handle, memberBytes, "Present")]);
  if ((await makeLayout(client, "create-volume/layout", layout)) === undefined) throw madeMeanwhile(record.handle);
  return record;
}

/** As createLoop; the layout comes last, since it shows every process that the volume is there. */
export async function createLvm(making: MakingLogicalVolume, order: LocalOrder): Promise<VolumeRecord> {
  const { record, existing } = order;
  if (existing !== undefined) return withSource(record, existing);
  const made = await orderLogicalVolume(making, order);
  if (made.spec.nodeName !== order.nodeName) throw madeMeanwhile(record.handle); // by another operator, elsewhere
  const logicalVolume = madeVolume(made);
  if (logicalVolume === undefined) throw new Refusal("ABORTED", `${record.handle} is not made yet; ask again`);
  const created = { ...record, logicalVolume };
  const layout = newLayout(created, [lvmMember(record.handle, currentBytes(made), "Present", logicalVolume)]);
  if ((await makeLayout(making.client, "create-volume/layout", layout)) === undefined)
    throw madeMeanwhile(record.handle);
  return created;
}

function withSource(record: VolumeRecord, { metadata, spec }: FilesystemLayout): VolumeRecord {
  const logicalVolume = spec.members?.[0]?.source.logicalVolume;
  if (logicalVolume !== undefined) return { ...record, logicalVolume };
  const what = `${FILESYSTEM_LAYOUTS.kind} ${metadata.name}`;
  throw new Refusal("FAILED_PRECONDITION", `${what} does not say of which logical volume it is`);
}

async function orderLogicalVolume(making: MakingLogicalVolume, order: LocalOrder): Promise<LogicalVolume> {
  const { record, nodeName, memberBytes, source } = order;
  const deviceClass = order.deviceClass ?? (await defaultClassOf(making.client, order));
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

async function defaultClassOf(client: KubeClient, { nodeName, storage: known }: LocalOrder): Promise<string> {
  const storage = known ?? (await client.get(NODE_STORAGES, { name: nodeName }));
  const name = deviceClassOf(storage, { backend: "lvm", deviceClass: undefined })?.name;
  if (name === undefined)
    throw new Refusal(
      "UNAVAILABLE",
      `node ${nodeName} has not reported its default device class yet (NodeStorage); ask again, or name a class by the parameter deviceClass`,
    );
  return name;
}
