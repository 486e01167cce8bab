// What every operation on volumes works with, and how it finds its class and its volume.

import { Refusal } from "../../contracts/csi/refusal.ts";
import { RECORDS } from "../../contracts/names.ts";
import type { CommandPort } from "../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../platform/process/effects/file-port.ts";
import type { Logger } from "../../platform/process/log.ts";
import { type ClassState, classState, findVolume, type UnusableClass } from "../classes/class-state.ts";
import { readDeviceNode } from "../devices.ts";
import type { GroupQueues, Lvm } from "../lvm/lvm.ts";
import type { LvmError } from "../lvm/lvm-error.ts";
import type { Report, ReportedVolume } from "../lvm/report.ts";
import type { ReportCache } from "../lvm/report-cache.ts";
import { type DeviceClass, findDeviceClass, type Settings } from "../settings/settings.ts";
import type { ReductionsUnderWay } from "./reduce/reductions.ts";

export interface VolumeHost {
  readonly settings: () => Settings;
  readonly lvm: Lvm;
  readonly queues: GroupQueues;
  readonly reports: ReportCache;
  readonly reductions: ReductionsUnderWay;
  /** Why LVM could not activate a thin pool, by GROUP/POOL. */
  readonly poolProblems: Map<string, string>;
  /** Tags that are written together when their group's turn comes, by volume group. */
  readonly waitingTags: Map<string, WaitingTags>;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly log: Logger;
}

export interface TagChange {
  readonly add: readonly string[];
  /** What is added, too, stays. */
  readonly remove: readonly string[];
}

export interface AskedTags extends TagChange {
  readonly deviceClass: DeviceClass;
  readonly name: string;
}

export type TagAnswer = FoundVolume | Refusal | LvmError;

/** Those that wait for the turn of their volume group. */
export interface WaitingTags {
  readonly asked: AskedTags[];
  readonly answers: Promise<ReadonlyMap<AskedTags, TagAnswer>>;
}

/** "" is the default class. Throws a Refusal, NOT_FOUND, where there is none. */
export function classOf({ settings }: VolumeHost, name: string): DeviceClass {
  const found = findDeviceClass(settings(), name);
  if (found !== undefined) return found;
  throw new Refusal("NOT_FOUND", `device-class not found: ${name === "" ? "no class is the default" : name}`);
}

export async function latestReport({ reports }: VolumeHost): Promise<Report> {
  return reports.latest() ?? (await reports.fresh());
}

/** As LVM was last heard. A group that is gone is not taken for one without volumes: it throws a Refusal, FAILED_PRECONDITION. */
export async function stateOf(host: VolumeHost, deviceClass: DeviceClass): Promise<ClassState> {
  const latest = classState(await latestReport(host), deviceClass);
  if (!isUnusable(latest)) return latest;
  return freshStateOf(host, deviceClass);
}

export async function freshStateOf({ reports }: VolumeHost, deviceClass: DeviceClass): Promise<ClassState> {
  const state = classState(await reports.fresh(), deviceClass);
  if (isUnusable(state)) throw unusable(state);
  return state;
}

export function isUnusable(state: ClassState | UnusableClass): state is UnusableClass {
  return "problem" in state;
}

export function unusable({ deviceClass, problem }: UnusableClass): Refusal {
  return new Refusal("FAILED_PRECONDITION", `device class ${deviceClass.name}: ${problem}`);
}

export interface FoundVolume {
  readonly state: ClassState;
  readonly volume: ReportedVolume;
}

/** LVM is asked again before a volume is said to be missing. Throws as `freshVolumeOf`. */
export async function volumeOf(host: VolumeHost, deviceClass: DeviceClass, name: string): Promise<FoundVolume> {
  const state = await stateOf(host, deviceClass);
  const volume = findVolume(state, name);
  return volume === undefined ? freshVolumeOf(host, deviceClass, name) : { state, volume };
}

/** Throws a Refusal where it is not in its class, NOT_FOUND only where it is nowhere on this machine. */
export async function freshVolumeOf(host: VolumeHost, deviceClass: DeviceClass, name: string): Promise<FoundVolume> {
  const state = await freshStateOf(host, deviceClass);
  const volume = findVolume(state, name);
  return volume === undefined ? refuseAbsent(host, state, name) : { state, volume };
}

/** What is not in its class: elsewhere on this machine, or nowhere. */
export function refuseAbsent(host: VolumeHost, state: ClassState, name: string): never {
  refuseElsewhere(host, state, name);
  throw new Refusal("NOT_FOUND", `there is no volume ${name} in device class ${state.deviceClass.name}`);
}

/** By the tag that our agent makes volumes with: of others' volumes a name like one of ours says nothing. */
function isOwned({ tags }: ReportedVolume): boolean {
  return tags.some((tag) => tag.startsWith(`${RECORDS.volumeUID}=`));
}

/**
 * Where a class was pointed at another volume group or pool, no caller hears that its volumes are gone, and no second one of the same name
 * is made: the caller would forget the data that are there.
 */
export function refuseElsewhere({ reports }: VolumeHost, state: ClassState, name: string): void {
  if (findVolume(state, name) !== undefined) return;
  for (const group of reports.latest()?.values() ?? []) {
    const volume = group.volumes.get(name);
    if (volume === undefined || !isOwned(volume)) continue;
    const place = (groupName: string, pool: string | undefined): string =>
      `volume group ${groupName}${pool === undefined || pool === "" ? "" : `, thin pool ${pool}`}`;
    throw new Refusal(
      "FAILED_PRECONDITION",
      `device class ${state.deviceClass.name} is ${place(state.group.name, state.thin?.pool.name)}, and volume ${name} is in ` +
        `${place(group.name, volume.pool)}: nothing is done to it. Point the class at it; ` +
        "remove it by hand only where its lv_uuid and lv_tags say that it is this volume, and no other of its name",
    );
  }
}

/** After a change: the kernel's word where there is a device, else LVM's. */
export async function withDevice(
  host: VolumeHost,
  deviceClass: DeviceClass,
  name: string,
): Promise<Pick<ReportedVolume, "name" | "uuid" | "sizeBytes" | "device">> {
  const node = await readDeviceNode(volumePath(deviceClass.volumeGroup, name));
  if (node !== undefined) return { name, ...node };
  return (await freshVolumeOf(host, deviceClass, name)).volume;
}

/** LVM's own name for it. */
export function volumePath(group: string, name: string): string {
  return `/dev/${group}/${name}`;
}
