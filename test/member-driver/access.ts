// Which ways of using a volume there are: as a filesystem or as a block device, on one node at a time. Pure.
import { invalidArgument, type Refusal } from "../../src/contracts/csi/refusal.ts";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../../src/contracts/gen/csi/v1/csi.ts";
import type { Switches } from "./switches.ts";

export interface Access {
  readonly block: boolean;
  /** Of a block volume empty. */
  readonly fsType: string;
  readonly mountFlags: readonly string[];
  /** At one target path at a time (ReadWriteOncePod). */
  readonly singleWriter: boolean;
}

const FILESYSTEMS = ["ext4", "xfs", "btrfs"];
const DEFAULT_FILESYSTEM = "ext4";
const SINGLE_NODE: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);

export function accessOf(capability: VolumeCapability | undefined, switches: Switches): Access | Refusal {
  const [type, mode] = [capability?.accessType, capability?.accessMode?.mode];
  if (type === undefined || mode === undefined)
    return invalidArgument("a volume capability with an access type and an access mode is required");
  if (!SINGLE_NODE.has(mode))
    return invalidArgument(`access mode ${Mode[mode] ?? mode}: a volume is on one node at a time`);
  const singleWriter = mode === Mode.SINGLE_NODE_SINGLE_WRITER;
  if (type.$case === "block") {
    if (!switches.block) return invalidArgument("block volumes are not supported by this class; use a filesystem");
    return { block: true, fsType: "", mountFlags: [], singleWriter };
  }
  const { fsType, mountFlags } = type.value;
  if (fsType !== "" && !FILESYSTEMS.includes(fsType))
    return invalidArgument(`filesystem "${fsType}" is none of ${FILESYSTEMS.join(", ")}`);
  return { block: false, fsType: fsType === "" ? DEFAULT_FILESYSTEM : fsType, mountFlags, singleWriter };
}
