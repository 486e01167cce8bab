// Which ways of using a volume there are: one node at a time, as a mounted filesystem. Pure.
import { FS_TYPES, type FsType } from "../../api/filesystem-layout.ts";
import { VolumeCapability_AccessMode_Mode as AccessMode, type VolumeCapability } from "../../gen/csi/v1/csi.ts";
import { Refusal } from "./refusal.ts";

const SINGLE_NODE_MODES: readonly AccessMode[] = [
  AccessMode.SINGLE_NODE_WRITER,
  AccessMode.SINGLE_NODE_READER_ONLY,
  AccessMode.SINGLE_NODE_SINGLE_WRITER,
  AccessMode.SINGLE_NODE_MULTI_WRITER,
];

/** Why these capabilities cannot be had; undefined: they can. */
export function refusalOfCapabilities(capabilities: readonly VolumeCapability[]): Refusal | undefined {
  if (capabilities.length === 0) return new Refusal("INVALID_ARGUMENT", "no volume capability is given");
  for (const capability of capabilities) {
    const problem = problemOf(capability);
    if (problem !== undefined) return new Refusal("INVALID_ARGUMENT", problem);
  }
  return undefined;
}

function problemOf({ accessType, accessMode }: VolumeCapability): string | undefined {
  if (accessType?.$case === "block")
    return "raw block volumes (volumeMode: Block) have no filesystem to grow; use volumeMode: Filesystem";
  if (accessType === undefined) return "a volume capability without an access type";
  const mode = accessMode?.mode ?? AccessMode.UNKNOWN;
  if (!SINGLE_NODE_MODES.includes(mode))
    return `access mode ${AccessMode[mode] ?? mode}: the volume is on one node's disk; use ReadWriteOnce or ReadWriteOncePod`;
  const fsType = accessType.value.fsType;
  if (fsType !== "" && !isFsType(fsType)) return `filesystem type "${fsType}"; there are: ${FS_TYPES.join(", ")}`;
  return undefined;
}

/** The filesystem type that the capabilities ask for, where they ask for one: csi-provisioner hands the class' type over in them. */
export function fsTypesOf(capabilities: readonly VolumeCapability[]): FsType[] {
  const types = capabilities.flatMap(({ accessType }) =>
    accessType?.$case === "mount" ? [accessType.value.fsType] : [],
  );
  return [...new Set(types.filter(isFsType))];
}

function isFsType(text: string): text is FsType {
  return (FS_TYPES as readonly string[]).includes(text);
}
