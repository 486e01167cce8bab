// Makes a volume; the same call again finds it. A crash in between leaves either nothing or the whole volume: LVM does it in one step.
import { Refusal } from "../../csi/refusal.ts";
import { type ClassState, findVolume } from "../classes/class-state.ts";
import { type Columns, columnsOf, LINEAR } from "../classes/columns.ts";
import { roundUp, takenBytes, thickRoomBytes } from "../classes/room.ts";
import { createArguments } from "../lvm/arguments.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import { refuseTags, refuseVolumeName } from "../lvm/lvm-names.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { letPoolZero } from "../pools/ready-pool.ts";
import type { DeviceClass } from "../settings/settings.ts";
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
import { refuseWiped } from "./wipe-mark.ts";

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

export async function createVolume(host: VolumeHost, order: VolumeOrder): Promise<MadeVolume | Refusal> {
  const deviceClass = classOf(host, order.deviceClass);
  if (deviceClass instanceof Refusal) return deviceClass;
  const options = optionsOf(host, order.optionClass);
  const refusal =
    options instanceof Refusal
      ? options
      : (refuseVolumeName(order.name) ?? refuseTags(order.tags) ?? refuseSize(order.sizeBytes));
  if (refusal instanceof Refusal) return refusal;
  const chosen = options instanceof Refusal ? undefined : options;
  const columns = deviceClass.thinPool === undefined ? columnsOf(deviceClass, chosen) : LINEAR;
  return host.lanes.run(deviceClass.volumeGroup, () =>
    createInTurn(host, deviceClass, { ...order, options: chosen, columns }),
  );
}

async function createInTurn(host: VolumeHost, deviceClass: DeviceClass, order: Order): Promise<MadeVolume | Refusal> {
  let state = await stateOf(host, deviceClass);
  // LVM is asked again before anybody is told that a volume is there, or that there is no room.
  if (
    !(state instanceof Refusal) &&
    (state.group.volumes.has(order.name) || refuseNew(host, state, order) !== undefined)
  )
    state = await freshStateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  if (state.group.volumes.has(order.name)) return existing(host, state, order);
  const refusal = refuseNew(host, state, order);
  if (refusal !== undefined) return refusal;
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
    // Somebody else has made one since the last report.
    if (!(error instanceof LvmError && error.code === "Exists")) throw error;
    const now = await freshStateOf(host, deviceClass);
    return now instanceof Refusal ? now : existing(host, now, order);
  }
  return made(host, state, order);
}

function optionsOf({ settings }: VolumeHost, name: string): readonly string[] | undefined | Refusal {
  if (name === "") return undefined;
  const found = settings().optionClasses.find((candidate) => candidate.name === name);
  return found?.options ?? new Refusal("INTERNAL", `unsupported lvcreate-option-class target: ${name}`);
}

function refuseNew(host: VolumeHost, state: ClassState, order: Order): Refusal | undefined {
  const { group, thin, freeBytes, deviceClass } = state;
  const roomBytes = thin === undefined ? thickRoomBytes(group, deviceClass.spareBytes, order.columns) : freeBytes;
  return refuseElsewhere(host, state, order.name) ?? refuseShortage(state, wholeBytes(state, order), roomBytes);
}

function wholeBytes({ group }: ClassState, { sizeBytes, columns }: Order): number {
  return roundUp(sizeBytes, group.extentBytes * columns.data);
}

/** The same volume as was ordered, or another one with its name. */
async function existing(host: VolumeHost, state: ClassState, order: Order): Promise<MadeVolume | Refusal> {
  const { name } = order;
  const volume = findVolume(state, name);
  const wiped = volume && refuseWiped(state.group.name, volume);
  if (wiped !== undefined) return wiped;
  if (volume !== undefined && volume.origin === "" && volume.sizeBytes === wholeBytes(state, order))
    return volume.device === undefined ? withDevice(host, state.deviceClass, name) : volume;
  const { group, deviceClass } = state;
  const size = group.volumes.get(name)?.sizeBytes ?? 0;
  return new Refusal(
    "ALREADY_EXISTS",
    `volume group ${group.name} has another volume ${name}, of ${size} bytes; ` +
      `${wholeBytes(state, order)} bytes were asked for in device class ${deviceClass.name}`,
  );
}

async function made(host: VolumeHost, state: ClassState, order: Order): Promise<MadeVolume | Refusal> {
  const { deviceClass, thin } = state;
  const found = await withDevice(host, deviceClass, order.name);
  if (found instanceof Refusal) return found;
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
