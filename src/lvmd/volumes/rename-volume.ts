// Renaming, which changes nothing on a volume: LVM is asked before it and after it.
import { Refusal } from "../../csi/refusal.ts";
import { findVolume } from "../classes/class-state.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import { absent, classOf, type FoundVolume, freshStateOf, freshVolumeOf, type VolumeHost } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

/** The same call again finds the new name, and is content. */
export async function renameVolume(
  host: VolumeHost,
  className: string,
  name: string,
  newName: string,
): Promise<FoundVolume | Refusal> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name) ?? refuseVolumeName(newName);
  if (refusal !== undefined) return refusal;
  return host.lanes.run(deviceClass.volumeGroup, async () => {
    const state = await freshStateOf(host, deviceClass);
    if (state instanceof Refusal) return state;
    const present = findVolume(state, newName);
    const source = findVolume(state, name);
    const either = source ?? present;
    const wiped = either && refuseWiped(state.group.name, either);
    if (wiped !== undefined) return wiped;
    if (source === undefined) return present === undefined ? absent(host, state, name) : { state, volume: present };
    if (name !== newName && state.group.volumes.has(newName))
      return new Refusal("ALREADY_EXISTS", `volume group ${state.group.name} has a volume ${newName} already`);
    if (name !== newName) await host.lvm.run("lvmd-rename/lvrename", "lvrename", [state.group.name, name, newName]);
    return freshVolumeOf(host, deviceClass, newName);
  });
}
