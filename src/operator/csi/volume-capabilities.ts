// The ways of use that a new volume is asked for, or an existing one is asked about, all together. Pure.

import { FS_TYPES, type FsType, type VolumeMode } from "../../api/filesystem-layout.ts";
import { type Access, accessOf } from "../../csi/access.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { VolumeCapability } from "../../gen/csi/v1/csi.ts";

export interface AskedUse {
  readonly volumeMode: VolumeMode;
  /** The filesystem types that the capabilities name, none twice: csi-provisioner hands the class' type over in them. */
  readonly fsTypes: readonly FsType[];
}

export function askedUse(capabilities: readonly VolumeCapability[]): AskedUse | Refusal {
  const fsTypes = new Set<FsType>();
  const modes = new Set<VolumeMode>();
  for (const capability of capabilities) {
    const access = accessOf(capability);
    const fsType = access instanceof Refusal ? access : fsTypeOf(access);
    if (fsType instanceof Refusal) return fsType;
    if (fsType !== undefined) fsTypes.add(fsType);
    if (!(access instanceof Refusal)) modes.add(access.volumeMode);
  }
  const [volumeMode, ...others] = modes;
  if (volumeMode === undefined) return invalidArgument("no volume capability is given");
  if (others.length > 0)
    return invalidArgument(
      "a filesystem and a raw block volume are asked for at once; a volume is the one or the other",
    );
  return { volumeMode, fsTypes: [...fsTypes] };
}

function fsTypeOf({ fsType }: Access): FsType | undefined | Refusal {
  if (fsType === "") return undefined;
  return (
    FS_TYPES.find((known) => known === fsType) ??
    invalidArgument(`filesystem type "${fsType}"; there are: ${FS_TYPES.join(", ")}`)
  );
}
