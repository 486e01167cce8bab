// Removes what LVM has of a snapshot, once its object asks for that. Never a volume's data: that goes by its FilesystemLayout alone.
import { status } from "@grpc/grpc-js";
import { snapshotUIDOf } from "../../api/identity.ts";
import type { LogicalVolume } from "../../api/logical-volume.ts";
import type { LvmdCalls } from "../lvmd-client/lvmd-calls.ts";
import { LvmdError } from "../lvmd-client/lvmd-error.ts";
import { taggedVolumeUID } from "../storage/lvm/find-logical-volume.ts";

export interface RemoveSnapshotParts {
  readonly lvmd: LvmdCalls;
  /** Some FilesystemLayout has it as its member. */
  readonly isMember: (volumeID: string) => boolean;
}

/** Idempotent. Throws LvmdError, also where it is no snapshot of this name: it stays, and is looked at again. */
export async function removeSnapshot(
  { lvmd, isMember }: RemoveSnapshotParts,
  { metadata, spec, status: told }: LogicalVolume,
): Promise<void> {
  const name = told?.volumeID ?? spec.volumeID ?? metadata.uid ?? "";
  const task = `removing snapshot ${metadata.name}`;
  const refuse = (why: string): Error => new LvmdError(status.FAILED_PRECONDITION, `${name} ${why}`, task);
  const snapshotUID = snapshotUIDOf(metadata.name);
  if (snapshotUID === undefined) throw refuse("is a volume's, which only its FilesystemLayout removes");
  if (isMember(name)) throw refuse("is a FilesystemLayout's member");
  const found = await lvmd.volume(spec.deviceClass, name);
  if (found !== undefined && taggedVolumeUID(found.tags) !== snapshotUID)
    throw refuse("is not tagged as this snapshot's; it is left as it is");
  // Also where it was not found: only this tells a volume that is gone from a class that is out of reach.
  await lvmd.wipeAndRemove(spec.deviceClass, name);
}
