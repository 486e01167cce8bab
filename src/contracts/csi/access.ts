// Which ways of using a volume there are: mounted or as a raw device, one node at a time. The same on the controller and on the
// node, so that nothing is provisioned that could not be mounted. Pure.

import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../gen/csi/v1/csi.ts";
import type { OwnBackend, VolumeMode } from "../kinds/filesystem-layout.ts";
import { invalidArgument } from "./refusal.ts";

export interface Access {
  readonly volumeMode: VolumeMode;
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

/** Throws a Refusal: always INVALID_ARGUMENT, and it says what to change. */
export function accessOf(capability: VolumeCapability | undefined): Access {
  const mode = capability?.accessMode?.mode;
  if (capability?.accessType === undefined || mode === undefined || mode === Mode.UNKNOWN)
    throw invalidArgument("a volume capability with an access type and an access mode is required");
  if (!SINGLE_NODE.has(mode))
    throw invalidArgument(
      `access mode ${Mode[mode] ?? mode}: the volume is on one node's disk; use ReadWriteOnce or ReadWriteOncePod`,
    );
  const common = {
    readOnly: mode === Mode.SINGLE_NODE_READER_ONLY,
    singleWriter: mode === Mode.SINGLE_NODE_SINGLE_WRITER,
  };
  if (capability.accessType.$case === "block") return { volumeMode: "Block", fsType: "", ...common };
  const { fsType, mountFlags } = capability.accessType.value;
  if (mountFlags.length > 0)
    throw invalidArgument(
      `mount options are not supported (${mountFlags.join(", ")}); remove mountOptions from the StorageClass`,
    );
  return { volumeMode: "Filesystem", fsType, ...common };
}

/** Whether the backend has that mode. Throws Refusal. */
export function requireMode(volumeMode: VolumeMode, backend: OwnBackend): void {
  if (volumeMode === "Filesystem" || backend === "lvm") return;
  throw invalidArgument(
    `raw block volumes (volumeMode: Block) are of the backend lvm alone, and this one is of ${backend}: it has no filesystem to ` +
      "grow; use volumeMode: Filesystem",
  );
}
