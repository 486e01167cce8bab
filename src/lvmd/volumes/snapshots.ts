// Thin snapshots, made and merged back. One is made in three steps, as TopoLVM makes it: the snapshot, its size, its access. The same call
// after a crash goes on with the step that is missing; a snapshot of another volume is never taken for it.
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import { type ClassState, findVolume, roundUp } from "../classes/class-state.ts";
import { activationArguments, refuseTags, refuseVolumeName, resizeArguments, snapshotArguments } from "../lvm/lvm.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { letPoolZero } from "../pools/thin-pools.ts";
import type { DeviceClass } from "../settings/settings.ts";
import type { MadeVolume } from "./create-volume.ts";
import { refuseWiped } from "./remove-volume.ts";
import { askedBytes, impairment, refuseShortage } from "./sizes.ts";
import {
  classOf,
  type FoundVolume,
  freshStateOf,
  freshVolumeOf,
  refuseAbsent,
  refuseElsewhere,
  type VolumeHost,
  volumePath,
} from "./volume-host.ts";

interface SnapshotOrder {
  readonly name: string;
  readonly deviceClass: string;
  readonly source: string;
  readonly tags: readonly string[];
  /** "ro" or "rw". */
  readonly access: string;
  /** 0: as large as its source. */
  readonly sizeBytes: number;
}

export async function createSnapshot(host: VolumeHost, order: SnapshotOrder): Promise<MadeVolume> {
  const deviceClass = classOf(host, order.deviceClass);
  if (deviceClass.thinPool === undefined)
    throw new Refusal(
      "UNIMPLEMENTED",
      "device class is not thin. Thick snapshots are not implemented: they would slow down every write to their source",
    );
  refuseVolumeName(order.name);
  refuseVolumeName(order.source);
  refuseTags(order.tags);
  refuseRest(order);
  return host.queues.run(deviceClass.volumeGroup, () => snapshotInTurn(host, deviceClass, order));
}

function refuseRest({ access, sizeBytes }: SnapshotOrder): void {
  if (access !== "ro" && access !== "rw")
    throw invalidArgument(`access type ${JSON.stringify(access)} is neither ro nor rw`);
  if (sizeBytes < 0) throw invalidArgument(`a size of ${sizeBytes} bytes cannot be`);
}

async function snapshotInTurn(host: VolumeHost, deviceClass: DeviceClass, order: SnapshotOrder): Promise<MadeVolume> {
  const state = await freshStateOf(host, deviceClass);
  const present = state.group.volumes.get(order.name);
  const wanted = wantedBytes(host, state, order, present);
  if (present === undefined) {
    refuseElsewhere(host, state, order.name);
    refuseShortage(state, wanted, state.freeBytes);
  } else refusePresent(state, present, order);
  const { volumeGroup } = deviceClass;
  await letPoolZero(host, volumeGroup, state.thin?.pool);
  if (present === undefined)
    await host.lvm.run(
      "lvmd-snapshot/lvcreate",
      "lvcreate",
      snapshotArguments(volumeGroup, order.source, order.name, order.tags),
    );
  const presentBytes = present?.sizeBytes ?? findVolume(state, order.source)?.sizeBytes ?? 0;
  if (presentBytes < wanted)
    await host.lvm.run(
      "lvmd-snapshot/lvresize",
      "lvresize",
      resizeArguments(volumeGroup, order.name, askedBytes(wanted)),
    );
  await giveAccess(host, volumeGroup, order, present);
  return (await freshVolumeOf(host, deviceClass, order.name)).volume;
}

/** What is there already is measured by what its source was in that moment: that may have grown since. */
function wantedBytes(
  host: VolumeHost,
  state: ClassState,
  { source, sizeBytes }: SnapshotOrder,
  present: ReportedVolume | undefined,
): number {
  const sourceVolume = findVolume(state, source);
  if (sourceVolume === undefined) {
    if (state.group.volumes.get(source)?.pool === "")
      throw new Refusal(
        "UNIMPLEMENTED",
        `snapshot can be created for only thin volumes: ${source} is in no thin pool of this class`,
      );
    refuseElsewhere(host, state, source);
    throw new Refusal("NOT_FOUND", `source logical volume ${source} is not found`);
  }
  refuseWiped(state.group.name, sourceVolume);
  const leastBytes = Math.min(sourceVolume.sizeBytes, present?.sizeBytes ?? Number.POSITIVE_INFINITY);
  const wanted = sizeBytes === 0 ? leastBytes : roundUp(sizeBytes, state.group.extentBytes);
  if (wanted >= leastBytes) return wanted;
  throw new Refusal(
    "OUT_OF_RANGE",
    `requested size ${sizeBytes} is smaller than source logical volume: ${sourceVolume.sizeBytes}`,
  );
}

function refusePresent(state: ClassState, present: ReportedVolume, order: SnapshotOrder): void {
  if (findVolume(state, order.name) !== undefined && present.origin === order.source)
    return refuseWiped(state.group.name, present);
  throw new Refusal(
    "ALREADY_EXISTS",
    `volume group ${state.group.name} has a volume ${order.name} that is not a snapshot of ${order.source}`,
  );
}

/** LVM refuses to make a read-only one read-only again. */
async function giveAccess(
  host: VolumeHost,
  group: string,
  { name, access }: SnapshotOrder,
  present: ReportedVolume | undefined,
): Promise<void> {
  const path = volumePath(group, name);
  const isReadOnly = present?.attr.charAt(1) === "r";
  if (access === "rw") await host.lvm.run("lvmd-snapshot/activate", "lvchange", ["-k", "n", "-a", "y", path]);
  else if (!isReadOnly) await host.lvm.run("lvmd-snapshot/make-read-only", "lvchange", ["-p", "r", path]);
}

// Gives a thin volume back what it held when a snapshot of it was taken. Done at once or not at all: a merge that LVM keeps for the next
// activation would take away what has been written until then. The same call after a crash goes on with the step that is missing.

interface MergeOrder {
  readonly deviceClass: string;
  readonly name: string;
  readonly snapshot: string;
}

/** The volume, active. Without a snapshot of that name it is only activated: nothing is left to merge. */
export async function mergeSnapshot(host: VolumeHost, order: MergeOrder): Promise<FoundVolume> {
  const deviceClass = classOf(host, order.deviceClass);
  refuseVolumeName(order.name);
  refuseVolumeName(order.snapshot);
  if (order.name === order.snapshot) throw invalidArgument(`volume ${order.name} is not a snapshot of itself`);
  return host.queues.run(deviceClass.volumeGroup, () => mergeInTurn(host, deviceClass, order));
}

async function mergeInTurn(host: VolumeHost, deviceClass: DeviceClass, order: MergeOrder): Promise<FoundVolume> {
  const state = await freshStateOf(host, deviceClass);
  const volume = findVolume(state, order.name);
  if (volume === undefined) return refuseAbsent(host, state, order.name);
  refuseChange(state, volume);
  const snapshot = state.group.volumes.get(order.snapshot);
  if (snapshot !== undefined && !isPutOff(volume)) {
    refuseMerge(state, volume, snapshot);
    await beginMerge(host, deviceClass, order);
  }
  return endMerge(host, deviceClass, order.name);
}

function refuseChange(state: ClassState, volume: ReportedVolume): void {
  const broken = impairment(state);
  if (broken !== undefined) throw new Refusal("FAILED_PRECONDITION", broken);
  refuseWiped(state.group.name, volume);
}

/** lvs(8): the sixth character of lv_attr is "o" for an open device. */
function refuseMerge(state: ClassState, volume: ReportedVolume, snapshot: ReportedVolume): void {
  const refusal = (why: string): Refusal => new Refusal("FAILED_PRECONDITION", why);
  if (findVolume(state, snapshot.name) === undefined || snapshot.origin !== volume.name)
    throw refusal(`volume ${snapshot.name} is not a snapshot of ${volume.name}`);
  refuseWiped(state.group.name, snapshot);
  if (snapshot.sizeBytes !== volume.sizeBytes)
    throw refusal(
      `volume ${volume.name} has ${volume.sizeBytes} bytes, and its snapshot ${snapshot.name} ${snapshot.sizeBytes}`,
    );
  const open = [volume, snapshot].find(({ attr }) => attr.charAt(5) === "o");
  if (open !== undefined) throw refusal(`volume ${open.name} is in use: nothing is merged`);
}

/** Both are deactivated first, which LVM refuses of what is open: of an active volume it may put the merge off. */
async function beginMerge({ lvm }: VolumeHost, { volumeGroup }: DeviceClass, order: MergeOrder): Promise<void> {
  const [volumePath, snapshotPath] = [`${volumeGroup}/${order.name}`, `${volumeGroup}/${order.snapshot}`];
  await lvm.run("lvmd-merge/deactivate", "lvchange", ["-a", "n", volumePath, snapshotPath]);
  await lvm.run("lvmd-merge/lvconvert", "lvconvert", ["-y", "--merge", snapshotPath]);
}

/** A merge that was put off all the same, by an activation in between, is carried out by the next activation. */
async function endMerge(host: VolumeHost, deviceClass: DeviceClass, name: string): Promise<FoundVolume> {
  const path = `${deviceClass.volumeGroup}/${name}`;
  const begun = await freshVolumeOf(host, deviceClass, name);
  if (isPutOff(begun.volume) && begun.volume.device !== undefined)
    await host.lvm.run("lvmd-merge/deactivate-again", "lvchange", ["-a", "n", path]);
  if (isPutOff(begun.volume) || begun.volume.device === undefined)
    await host.lvm.run("lvmd-merge/activate", "lvchange", activationArguments(deviceClass.volumeGroup, name));
  const ended = await freshVolumeOf(host, deviceClass, name);
  if (!isPutOff(ended.volume)) return ended;
  throw new LvmError("Failed", `LVM has not merged the snapshot into ${path} yet, and has not said why`);
}

/** lvs(8): the first character of lv_attr is "O" for a volume with a snapshot that will merge. */
function isPutOff({ attr }: ReportedVolume): boolean {
  return attr.startsWith("O");
}
