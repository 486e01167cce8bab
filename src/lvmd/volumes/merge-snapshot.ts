// Gives a thin volume back what it held when a snapshot of it was taken. Done at once or not at all: a merge that LVM keeps for the next
// activation would take away what has been written until then. The same call after a crash goes on with the step that is missing.
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { type ClassState, findVolume } from "../classes/class-state.ts";
import { activationArguments } from "../lvm/arguments.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import type { DeviceClass } from "../settings/settings.ts";
import { impairment } from "./sizes.ts";
import { absent, classOf, type FoundVolume, freshStateOf, freshVolumeOf, type VolumeHost } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

export interface MergeOrder {
  readonly deviceClass: string;
  readonly name: string;
  readonly snapshot: string;
}

/** The volume, active. Without a snapshot of that name it is only activated: nothing can merge any more. */
export async function mergeSnapshot(host: VolumeHost, order: MergeOrder): Promise<FoundVolume | Refusal> {
  const deviceClass = classOf(host, order.deviceClass);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(order.name) ?? refuseVolumeName(order.snapshot);
  if (refusal !== undefined) return refusal;
  if (order.name === order.snapshot) return invalidArgument(`volume ${order.name} is no snapshot of itself`);
  return host.lanes.run(deviceClass.volumeGroup, () => mergeInTurn(host, deviceClass, order));
}

async function mergeInTurn(
  host: VolumeHost,
  deviceClass: DeviceClass,
  order: MergeOrder,
): Promise<FoundVolume | Refusal> {
  const state = await freshStateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  const volume = findVolume(state, order.name);
  if (volume === undefined) return absent(host, state, order.name);
  const unfit = refuseChange(state, volume);
  if (unfit !== undefined) return unfit;
  const snapshot = state.group.volumes.get(order.snapshot);
  if (snapshot !== undefined && !isPutOff(volume)) {
    const refusal = refuseMerge(state, volume, snapshot);
    if (refusal !== undefined) return refusal;
    await beginMerge(host, deviceClass, order);
  }
  return endMerge(host, deviceClass, order.name);
}

function refuseChange(state: ClassState, volume: ReportedVolume): Refusal | undefined {
  const broken = impairment(state);
  return broken === undefined ? refuseWiped(state.group.name, volume) : new Refusal("FAILED_PRECONDITION", broken);
}

/** lvs(8): the sixth character of lv_attr is "o" for an open device. */
function refuseMerge(state: ClassState, volume: ReportedVolume, snapshot: ReportedVolume): Refusal | undefined {
  const refuse = (why: string): Refusal => new Refusal("FAILED_PRECONDITION", why);
  if (findVolume(state, snapshot.name) === undefined || snapshot.origin !== volume.name)
    return refuse(`volume ${snapshot.name} is no snapshot of ${volume.name}`);
  const wiped = refuseWiped(state.group.name, snapshot);
  if (wiped !== undefined) return wiped;
  if (snapshot.sizeBytes !== volume.sizeBytes)
    return refuse(
      `volume ${volume.name} has ${volume.sizeBytes} bytes, and its snapshot ${snapshot.name} ${snapshot.sizeBytes}`,
    );
  const open = [volume, snapshot].find(({ attr }) => attr.charAt(5) === "o");
  return open && refuse(`volume ${open.name} is in use: nothing is merged`);
}

/** Both are let go of first, which LVM refuses of what is open: of an active volume it may put the merge off. */
async function beginMerge({ lvm }: VolumeHost, { volumeGroup }: DeviceClass, order: MergeOrder): Promise<void> {
  const [volumePath, snapshotPath] = [`${volumeGroup}/${order.name}`, `${volumeGroup}/${order.snapshot}`];
  await lvm.run("lvmd-merge/deactivate", "lvchange", ["-a", "n", volumePath, snapshotPath]);
  await lvm.run("lvmd-merge/lvconvert", "lvconvert", ["-y", "--merge", snapshotPath]);
}

/** One that was put off all the same, since somebody has activated the volume in between, is carried out by an activation. */
async function endMerge(host: VolumeHost, deviceClass: DeviceClass, name: string): Promise<FoundVolume | Refusal> {
  const path = `${deviceClass.volumeGroup}/${name}`;
  const begun = await freshVolumeOf(host, deviceClass, name);
  if (begun instanceof Refusal) return begun;
  if (isPutOff(begun.volume) && begun.volume.device !== undefined)
    await host.lvm.run("lvmd-merge/deactivate-again", "lvchange", ["-a", "n", path]);
  if (isPutOff(begun.volume) || begun.volume.device === undefined)
    await host.lvm.run("lvmd-merge/activate", "lvchange", activationArguments(deviceClass.volumeGroup, name));
  const ended = await freshVolumeOf(host, deviceClass, name);
  if (ended instanceof Refusal || !isPutOff(ended.volume)) return ended;
  throw new LvmError("Failed", `LVM has not merged the snapshot into ${path} yet, and has not said why`);
}

/** lvs(8): the first character of lv_attr is "O" for a volume with a snapshot that will merge. */
function isPutOff({ attr }: ReportedVolume): boolean {
  return attr.startsWith("O");
}
