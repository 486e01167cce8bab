// Which ways of using a volume there are: mounted filesystems, one node at a time. The same on the controller and on the
// node, so that nothing is provisioned that could not be mounted. Pure.
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../gen/csi/v1/csi.ts";
import { invalidArgument, type Refusal } from "./refusal.ts";

export interface Access {
  /** As the request says; empty: whatever the volume has. */
  readonly fsType: string;
  readonly readOnly: boolean;
  /** At most one target path at a time (ReadWriteOncePod). */
  readonly singleWriter: boolean;
}

const SINGLE_NODE: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);

/** A refusal is always INVALID_ARGUMENT and says what to change. */
export function accessOf(capability: VolumeCapability | undefined): Access | Refusal {
  const mode = capability?.accessMode?.mode;
  if (capability?.accessType === undefined || mode === undefined || mode === Mode.UNKNOWN)
    return invalidArgument("a volume capability with an access type and an access mode is required");
  if (capability.accessType.$case === "block")
    return invalidArgument(
      "raw block volumes (volumeMode: Block) have no filesystem to grow; use volumeMode: Filesystem",
    );
  if (!SINGLE_NODE.has(mode))
    return invalidArgument(
      `access mode ${Mode[mode] ?? mode}: the volume is on one node's disk; use ReadWriteOnce or ReadWriteOncePod`,
    );
  const { fsType, mountFlags } = capability.accessType.value;
  if (mountFlags.length > 0)
    return invalidArgument(
      `mount options are not supported (${mountFlags.join(", ")}); remove mountOptions from the StorageClass`,
    );
  return {
    fsType,
    readOnly: mode === Mode.SINGLE_NODE_READER_ONLY,
    singleWriter: mode === Mode.SINGLE_NODE_SINGLE_WRITER,
  };
}
