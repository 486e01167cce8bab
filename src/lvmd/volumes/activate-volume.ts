// Has LVM activate a volume that is not: after a reboot of a node whose LVM does not do that by itself, or could not.
import { Refusal } from "../../csi/refusal.ts";
import { activationArguments } from "../lvm/arguments.ts";
import { refuseVolumeName } from "../lvm/lvm-names.ts";
import { letPoolZero } from "../pools/ready-pool.ts";
import { classOf, type FoundVolume, freshVolumeOf, type VolumeHost } from "./volume-host.ts";
import { refuseWiped } from "./wipe-mark.ts";

/** The same call again finds it active, and is content. */
export async function activateVolume(
  host: VolumeHost,
  className: string,
  name: string,
): Promise<FoundVolume | Refusal> {
  const deviceClass = classOf(host, className);
  if (deviceClass instanceof Refusal) return deviceClass;
  const refusal = refuseVolumeName(name);
  if (refusal !== undefined) return refusal;
  return host.lanes.run(deviceClass.volumeGroup, async () => {
    const found = await freshVolumeOf(host, deviceClass, name);
    if (found instanceof Refusal) return found;
    const group = found.state.group.name;
    const wiped = refuseWiped(group, found.volume);
    if (wiped !== undefined || found.volume.device !== undefined) return wiped ?? found;
    await letPoolZero(host, group, found.state.thin?.pool);
    await host.lvm.run("lvmd-activate/lvchange", "lvchange", activationArguments(group, name));
    return freshVolumeOf(host, deviceClass, name);
  });
}
