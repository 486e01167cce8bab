// A thin snapshot in three steps, as TopoLVM makes it: the snapshot, its size, its access. The same call after a crash goes on with
// the step that is missing; a snapshot of another volume is never taken for it.
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { type ClassState, findVolume } from "../classes/class-state.ts";
import { roundUp } from "../classes/room.ts";
import { resizeArguments, snapshotArguments } from "../lvm/arguments.ts";
import { refuseTags, refuseVolumeName } from "../lvm/lvm-names.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { letPoolZero } from "../pools/ready-pool.ts";
import type { DeviceClass } from "../settings/settings.ts";
import type { MadeVolume } from "./create-volume.ts";
import { askedBytes, refuseShortage } from "./sizes.ts";
import { classOf, freshStateOf, freshVolumeOf, refuseElsewhere, type VolumeHost, volumePath } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

export interface SnapshotOrder {
  readonly name: string;
  readonly deviceClass: string;
  readonly source: string;
  readonly tags: readonly string[];
  /** "ro" or "rw". */
  readonly access: string;
  /** 0: as large as its source. */
  readonly sizeBytes: number;
}

export async function createSnapshot(host: VolumeHost, order: SnapshotOrder): Promise<MadeVolume | Refusal> {
  const deviceClass = classOf(host, order.deviceClass);
  if (deviceClass instanceof Refusal) return deviceClass;
  if (deviceClass.thinPool === undefined)
    return new Refusal(
      "UNIMPLEMENTED",
      "device class is not thin. Thick snapshots are not implemented: they would slow down every write to their source",
    );
  const refusal =
    refuseVolumeName(order.name) ?? refuseVolumeName(order.source) ?? refuseTags(order.tags) ?? refuseRest(order);
  if (refusal !== undefined) return refusal;
  return host.lanes.run(deviceClass.volumeGroup, () => snapshotInTurn(host, deviceClass, order));
}

function refuseRest({ access, sizeBytes }: SnapshotOrder): Refusal | undefined {
  if (access !== "ro" && access !== "rw")
    return invalidArgument(`access type ${JSON.stringify(access)} is neither ro nor rw`);
  return sizeBytes < 0 ? invalidArgument(`a size of ${sizeBytes} bytes cannot be`) : undefined;
}

async function snapshotInTurn(
  host: VolumeHost,
  deviceClass: DeviceClass,
  order: SnapshotOrder,
): Promise<MadeVolume | Refusal> {
  const state = await freshStateOf(host, deviceClass);
  if (state instanceof Refusal) return state;
  const present = state.group.volumes.get(order.name);
  const wanted = wantedBytes(host, state, order, present);
  if (wanted instanceof Refusal) return wanted;
  const refusal =
    present === undefined
      ? (refuseElsewhere(host, state, order.name) ?? refuseShortage(state, wanted, state.freeBytes))
      : refusePresent(state, present, order);
  if (refusal !== undefined) return refusal;
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
  const made = await freshVolumeOf(host, deviceClass, order.name);
  return made instanceof Refusal ? made : made.volume;
}

/** What is there already is measured by what its source was in that moment: that may have grown since. */
function wantedBytes(
  host: VolumeHost,
  state: ClassState,
  { source, sizeBytes }: SnapshotOrder,
  present: ReportedVolume | undefined,
): number | Refusal {
  const sourceVolume = findVolume(state, source);
  if (sourceVolume === undefined) {
    if (state.group.volumes.get(source)?.pool === "")
      return new Refusal(
        "UNIMPLEMENTED",
        `snapshot can be created for only thin volumes: ${source} is in no thin pool of this class`,
      );
    const elsewhere = refuseElsewhere(host, state, source);
    return elsewhere ?? new Refusal("NOT_FOUND", `source logical volume ${source} is not found`);
  }
  const wiped = refuseWiped(state.group.name, sourceVolume);
  if (wiped !== undefined) return wiped;
  const leastBytes = Math.min(sourceVolume.sizeBytes, present?.sizeBytes ?? Number.POSITIVE_INFINITY);
  const wanted = sizeBytes === 0 ? leastBytes : roundUp(sizeBytes, state.group.extentBytes);
  if (wanted >= leastBytes) return wanted;
  return new Refusal(
    "OUT_OF_RANGE",
    `requested size ${sizeBytes} is smaller than source logical volume: ${sourceVolume.sizeBytes}`,
  );
}

function refusePresent(state: ClassState, present: ReportedVolume, order: SnapshotOrder): Refusal | undefined {
  if (findVolume(state, order.name) !== undefined && present.origin === order.source)
    return refuseWiped(state.group.name, present);
  return new Refusal(
    "ALREADY_EXISTS",
    `volume group ${state.group.name} has a volume ${order.name} that is no snapshot of ${order.source}`,
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
