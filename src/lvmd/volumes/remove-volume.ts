// Takes a volume away, with what is on it. An open one is never taken: LVM refuses.
import { Refusal } from "../../csi/refusal.ts";
import { columnsOf } from "../classes/columns.ts";
import { takenBytes } from "../classes/room.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import { classOf, type FoundVolume, type VolumeHost, volumeOf } from "./volume-host.ts";

/** NOT_FOUND when there is none. */
export async function removeVolume(host: VolumeHost, className: string, name: string): Promise<Refusal | undefined> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name);
  if (refusal !== undefined) return refusal;
  return host.lanes.run(deviceClass.volumeGroup, async () => {
    const found = await volumeOf(host, deviceClass, name);
    return found instanceof Refusal ? found : (refuseOrigin(found) ?? removeInTurn(host, found));
  });
}

/** lvs(8): the first character of lv_attr is "o" or "O" for a volume that has thick snapshots. */
export function refuseOrigin({ state, volume }: FoundVolume): Refusal | undefined {
  if (!/^[oO]/.test(volume.attr)) return undefined;
  return new Refusal(
    "FAILED_PRECONDITION",
    `volume ${state.group.name}/${volume.name} has snapshots that would go with it: remove them first`,
  );
}

/** In the group's turn. */
export async function removeInTurn(host: VolumeHost, { state, volume }: FoundVolume): Promise<undefined> {
  const { deviceClass, group, thin } = state;
  await host.lvm.run("lvmd-remove/lvremove", "lvremove", ["-f", `${group.name}/${volume.name}`]);
  const freedBytes = thin === undefined ? takenBytes(volume.sizeBytes, columnsOf(deviceClass, undefined)) : 0;
  host.reports.note({ kind: "Removed", group: group.name, name: volume.name, freedBytes });
}
