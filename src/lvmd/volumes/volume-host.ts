// What every operation on volumes works with, and how it finds its class and its volume.
import { RECORDS } from "../../api/names.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CommandPort } from "../../process/command-port.ts";
import type { FilePort } from "../../process/file-port.ts";
import type { Logger } from "../../process/log.ts";
import { type ClassState, classState, findVolume, type UnusableClass } from "../classes/class-state.ts";
import { readDeviceNode } from "../device-node.ts";
import type { GroupLanes } from "../lvm/group-lanes.ts";
import type { Lvm } from "../lvm/lvm.ts";
import type { Report, ReportedVolume } from "../lvm/report.ts";
import type { ReportCache } from "../lvm/report-cache.ts";
import { type DeviceClass, findDeviceClass, type Settings } from "../settings/settings.ts";
import type { WaitingTags } from "./change-tags.ts";
import type { ReductionsUnderWay } from "./reductions-under-way.ts";

export interface VolumeHost {
  readonly settings: () => Settings;
  readonly lvm: Lvm;
  readonly lanes: GroupLanes;
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

/** "" is the default class. */
export function classOf({ settings }: VolumeHost, name: string): DeviceClass | Refusal {
  const found = findDeviceClass(settings(), name);
  if (found !== undefined) return found;
  return new Refusal("NOT_FOUND", `device-class not found: ${name === "" ? "no class is the default" : name}`);
}

export async function latestReport({ reports }: VolumeHost): Promise<Report> {
  return reports.latest() ?? (await reports.fresh());
}

/** As LVM was last heard. A group that is gone is not taken for one without volumes: the refusal is FAILED_PRECONDITION. */
export async function stateOf(host: VolumeHost, deviceClass: DeviceClass): Promise<ClassState | Refusal> {
  const latest = classState(await latestReport(host), deviceClass);
  if (!isUnusable(latest)) return latest;
  return freshStateOf(host, deviceClass);
}

export async function freshStateOf({ reports }: VolumeHost, deviceClass: DeviceClass): Promise<ClassState | Refusal> {
  const state = classState(await reports.fresh(), deviceClass);
  return isUnusable(state) ? unusable(state) : state;
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

/** LVM is asked again before a volume is said to be missing. */
export async function volumeOf(
  host: VolumeHost,
  deviceClass: DeviceClass,
  name: string,
): Promise<FoundVolume | Refusal> {
  const state = await stateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  const volume = findVolume(state, name);
  return volume === undefined ? freshVolumeOf(host, deviceClass, name) : { state, volume };
}

export async function freshVolumeOf(
  host: VolumeHost,
  deviceClass: DeviceClass,
  name: string,
): Promise<FoundVolume | Refusal> {
  const state = await freshStateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  const volume = findVolume(state, name);
  return volume === undefined ? absent(host, state, name) : { state, volume };
}

/** What is not in its class: elsewhere on this machine, or nowhere. */
export function absent(host: VolumeHost, state: ClassState, name: string): Refusal {
  const missing = `there is no volume ${name} in device class ${state.deviceClass.name}`;
  return refuseElsewhere(host, state, name) ?? new Refusal("NOT_FOUND", missing);
}

/** By the tag that our agent makes volumes with: of others' volumes a name like one of ours says nothing. */
function isOwned({ tags }: ReportedVolume): boolean {
  return tags.some((tag) => tag.startsWith(`${RECORDS.volumeUID}=`));
}

/**
 * Of a class that was pointed at another volume group or pool nobody is told that its volumes are gone, and none gets a second one of its
 * name: who asks would forget the data that are there.
 */
export function refuseElsewhere({ reports }: VolumeHost, state: ClassState, name: string): Refusal | undefined {
  if (findVolume(state, name) !== undefined) return undefined;
  for (const group of reports.latest()?.values() ?? []) {
    const volume = group.volumes.get(name);
    if (volume === undefined || !isOwned(volume)) continue;
    const place = (groupName: string, pool: string | undefined): string =>
      `volume group ${groupName}${pool === undefined || pool === "" ? "" : `, thin pool ${pool}`}`;
    return new Refusal(
      "FAILED_PRECONDITION",
      `device class ${state.deviceClass.name} is ${place(state.group.name, state.thin?.pool.name)}, and volume ${name} is in ` +
        `${place(group.name, volume.pool)}: nothing is done to it. Point the class at it; ` +
        "remove it by hand only where its lv_uuid and lv_tags say that it is this volume, and no other of its name",
    );
  }
  return undefined;
}

/** After a change: the kernel's word where there is a device, else LVM's. */
export async function withDevice(
  host: VolumeHost,
  deviceClass: DeviceClass,
  name: string,
): Promise<Pick<ReportedVolume, "name" | "uuid" | "sizeBytes" | "device"> | Refusal> {
  const node = await readDeviceNode(volumePath(deviceClass.volumeGroup, name));
  if (node !== undefined) return { name, ...node };
  const found = await freshVolumeOf(host, deviceClass, name);
  return found instanceof Refusal ? found : found.volume;
}

/** LVM's own name for it. */
export function volumePath(group: string, name: string): string {
  return `/dev/${group}/${name}`;
}
