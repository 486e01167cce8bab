// What kind of access a request wants, and whether we can give it: mounted filesystems, one node at a time. Pure.
import { status } from "@grpc/grpc-js";
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from "../gen/csi/v1/csi.ts";
import { CsiError } from "./csi-error.ts";

export interface Access {
  /** As the request says; empty: whatever the volume has. */
  readonly fsType: string;
  readonly readOnly: boolean;
}

const SINGLE_NODE: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);

/** Throws CsiError INVALID_ARGUMENT. */
export function accessOf(capability: VolumeCapability | undefined, volumeId: string): Access {
  const refuse = (message: string): never => {
    throw new CsiError(status.INVALID_ARGUMENT, `volume ${volumeId}: ${message}`);
  };
  const mode = capability?.accessMode?.mode;
  if (capability?.accessType === undefined || mode === undefined) return refuse("volume_capability is required");
  if (capability.accessType.$case === "block")
    return refuse("raw block access is not possible: Tidemark sizes filesystems; set volumeMode: Filesystem");
  if (!SINGLE_NODE.has(mode))
    return refuse(`access mode ${Mode[mode]} is not possible on a node-local volume; use ReadWriteOnce`);
  const { fsType, mountFlags } = capability.accessType.value;
  if (mountFlags.length > 0)
    return refuse(
      `mount options are not supported (${mountFlags.join(", ")}); remove mountOptions from the StorageClass`,
    );
  return { fsType, readOnly: mode === Mode.SINGLE_NODE_READER_ONLY };
}
