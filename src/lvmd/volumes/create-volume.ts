// Makes a volume; the same call again finds it. A crash in between leaves either nothing or the whole volume: LVM does it in one step.
import { Refusal } from "../../contracts/csi/refusal.ts";
import {
  type ClassState,
  type Columns,
  columnsOf,
  findVolume,
  LINEAR,
  roundUp,
  takenBytes,
  thickRoomBytes,
} from "../classes/class-state.ts";
import { createArguments, refuseTags, refuseVolumeName } from "../lvm/lvm.ts";
import { LvmError, refuses } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { letPoolZero } from "../pools/thin-pools.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { refuseWiped } from "./remove-volume.ts";
import { askedBytes, refuseShortage, refuseSize } from "./sizes.ts";
import {
  classOf,
  freshStateOf,
  refuseElsewhere,
  stateOf,
  type VolumeHost,
  volumePath,
  withDevice,
} from "./volume-host.ts";

export interface VolumeOrder {
  readonly name: string;
  readonly deviceClass: string;
  readonly optionClass: string;
  readonly sizeBytes: number;
  readonly tags: readonly string[];
}

export type MadeVolume = Pick<ReportedVolume, "name" | "sizeBytes" | "device">;

/** What is known of an order before the group's turn comes. */
interface Order extends VolumeOrder {
  readonly options: readonly string[] | undefined;
  readonly columns: Columns;
}

export async function createVolume(host: VolumeHost, order: VolumeOrder): Promise<MadeVolume> {
  const deviceClass = classOf(host, order.deviceClass);
  const options = optionsOf(host, order.optionClass);
  refuseVolumeName(order.name);
  refuseTags(order.tags);
  refuseSize(order.sizeBytes);
  const columns = deviceClass.thinPool === undefined ? columnsOf(deviceClass, options) : LINEAR;
  return host.queues.run(deviceClass.volumeGroup, () =>
    createInTurn(host, deviceClass, { ...order, options, columns }),
  );
}

async function createInTurn(host: VolumeHost, deviceClass: DeviceClass, order: Order): Promise<MadeVolume> {
  const known = await stateOf(host, deviceClass);
  // LVM is asked again before the answer that a volume is there, or that there is no room.
  const isSure = !known.group.volumes.has(order.name) && !refuses(() => refuseNew(host, known, order));
  const state = isSure ? known : await freshStateOf(host, deviceClass);
  if (state.group.volumes.has(order.name)) return existing(host, state, order);
  refuseNew(host, state, order);
  const { name, tags, options } = order;
  const sizeBytes = askedBytes(order.sizeBytes);
  await letPoolZero(host, deviceClass.volumeGroup, state.thin?.pool);
  try {
    await host.lvm.run(
      "lvmd-create/lvcreate",
      "lvcreate",
      createArguments(deviceClass, { name, sizeBytes, tags, options }),
    );
  } catch (error) {
    // Another program has made one since the last report.
    if (!(error instanceof LvmError && error.code === "Exists")) throw error;
    return existing(host, await freshStateOf(host, deviceClass), order);
  }
  return made(host, state, order);
}

function optionsOf({ settings }: VolumeHost, name: string): readonly string[] | undefined {
  if (name === "") return undefined;
  const found = settings().optionClasses.find((candidate) => candidate.name === name);
  if (found === undefined) throw new Refusal("INTERNAL", `unsupported lvcreate-option-class target: ${name}`);
  return found.options;
}

function refuseNew(host: VolumeHost, state: ClassState, order: Order): void {
  const { group, thin, freeBytes, deviceClass } = state;
  const roomBytes = thin === undefined ? thickRoomBytes(group, deviceClass.spareBytes, order.columns) : freeBytes;
  refuseElsewhere(host, state, order.name);
  refuseShortage(state, wholeBytes(state, order), roomBytes);
}

function wholeBytes({ group }: ClassState, { sizeBytes, columns }: Order): number {
  return roundUp(sizeBytes, group.extentBytes * columns.data);
}

/** The same volume as was ordered, or another one with its name. */
async function existing(host: VolumeHost, state: ClassState, order: Order): Promise<MadeVolume> {
  const { name } = order;
  const volume = findVolume(state, name);
  if (volume !== undefined) refuseWiped(state.group.name, volume);
  if (volume !== undefined && volume.origin === "" && volume.sizeBytes === wholeBytes(state, order))
    return volume.device === undefined ? withDevice(host, state.deviceClass, name) : volume;
  const { group, deviceClass } = state;
  const size = group.volumes.get(name)?.sizeBytes ?? 0;
  throw new Refusal(
    "ALREADY_EXISTS",
    `volume group ${group.name} has another volume ${name}, of ${size} bytes; ` +
      `${wholeBytes(state, order)} bytes were asked for in device class ${deviceClass.name}`,
  );
}

async function made(host: VolumeHost, state: ClassState, order: Order): Promise<MadeVolume> {
  const { deviceClass, thin } = state;
  const found = await withDevice(host, deviceClass, order.name);
  const volume: ReportedVolume = {
    name: order.name,
    uuid: found.uuid,
    sizeBytes: found.sizeBytes,
    path: volumePath(deviceClass.volumeGroup, order.name),
    device: found.device,
    tags: order.tags,
    attr: "",
    pool: thin?.pool.name ?? "",
    origin: "",
    dataPercent: 0,
    metadataPercent: 0,
    metadataSizeBytes: 0,
    dataColumns: order.columns.data,
    chunkBytes: 0,
  };
  const taken = thin === undefined ? takenBytes(volume.sizeBytes, order.columns) : 0;
  host.reports.note({ kind: "Created", group: deviceClass.volumeGroup, volume, takenBytes: taken });
  return found;
}
