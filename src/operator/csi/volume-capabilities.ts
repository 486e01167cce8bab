// The ways of use that a new volume is asked for, or an existing one is asked about, all together. Pure.

import { FS_TYPES, type FsType } from "../../api/filesystem-layout.ts";
import { type Access, accessOf } from "../../csi/access.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { VolumeCapability } from "../../gen/csi/v1/csi.ts";

/** The filesystem types that the capabilities name, none twice: csi-provisioner hands the class' type over in them. */
export function fsTypesOf(capabilities: readonly VolumeCapability[]): FsType[] | Refusal {
  if (capabilities.length === 0) return invalidArgument("no volume capability is given");
  const fsTypes = new Set<FsType>();
  for (const capability of capabilities) {
    const access = accessOf(capability);
    const fsType = access instanceof Refusal ? access : fsTypeOf(access);
    if (fsType instanceof Refusal) return fsType;
    if (fsType !== undefined) fsTypes.add(fsType);
  }
  return [...fsTypes];
}

function fsTypeOf({ fsType }: Access): FsType | undefined | Refusal {
  if (fsType === "") return undefined;
  return (
    FS_TYPES.find((known) => known === fsType) ??
    invalidArgument(`filesystem type "${fsType}"; there are: ${FS_TYPES.join(", ")}`)
  );
}
