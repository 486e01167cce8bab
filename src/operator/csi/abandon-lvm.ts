// Takes away a logical volume that was made, or is being made, for a volume that nobody will get: its claim is gone, or it is wanted on
// another node. No pod has ever seen it, since no PersistentVolume names it; its node removes it like any other.

import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { fsidOf, volumeUIDOf } from "../../api/identity.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import { PERSISTENT_VOLUMES } from "../../kube/resources.ts";
import { madeVolume } from "../lvm/logical-volume-state.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { lvmMember, newLayout } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { makeLayout, readLayout } from "../volume/new-layout.ts";
import { isOurVolume } from "../volume/volume-record.ts";
import { isLost } from "./holding-node.ts";
import { type RemovingLocal, removeLocal } from "./remove-local.ts";
import { askRemoval } from "./remove-volume.ts";

export interface Abandoning extends RemovingLocal {
  readonly layouts: LayoutWriter;
}

/** Undefined: nothing is left of it, or it is somebody's and stays; else what it waits for. Throws KubeError. */
export async function abandonLvm(abandoning: Abandoning, handle: string): Promise<Refusal | undefined> {
  const { client, layouts } = abandoning;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  if (volumes.items.some((volume) => isOurVolume(volume) && volume.spec.csi?.volumeHandle === handle)) return undefined;
  const layout = (await readLayout(client, handle)) ?? (await removalOf(abandoning, handle));
  if (layout === undefined || layout instanceof Refusal) return layout;
  const asked = await askRemoval(layouts, layout, isUnused);
  return asked === undefined || !isRemoving(asked) ? undefined : removeLocal(abandoning, asked, isLost);
}

/** A layout that asks for the removal of what only a LogicalVolume tells of; undefined: there is none either. */
export async function removalOf(
  { client }: Pick<Abandoning, "client">,
  handle: string,
): Promise<FilesystemLayout | undefined | Refusal> {
  const logicalVolume = await client.get(LOGICAL_VOLUMES, { name: handle });
  if (logicalVolume === undefined) return undefined;
  const made = await makeLayout(client, "delete-volume/layout-of-logical-volume", removalLayout(logicalVolume));
  return made ?? new Refusal("ABORTED", `${handle}: its FilesystemLayout was made meanwhile; ask again`);
}

/** Whatever the node has made by then goes by the name that LVM has it under, which is the object's UID. */
function removalLayout(logicalVolume: LogicalVolume): ApplyConfiguration {
  const { metadata, spec } = logicalVolume;
  const volumeUID = volumeUIDOf(metadata.name) ?? "";
  const { volumeID, deviceClass } = madeVolume(logicalVolume) ?? {
    volumeID: metadata.uid ?? "",
    deviceClass: spec.deviceClass,
  };
  const { namespace = "", name = "", uid = volumeUID } = spec.claimRef ?? {};
  const record = {
    handle: metadata.name,
    volumeUID,
    fsid: fsidOf(volumeUID),
    backend: "lvm",
    // What is removed is not looked into.
    volumeMode: spec.volumeMode ?? "Filesystem",
    fsType: spec.volumeMode === "Block" ? undefined : "btrfs",
    nodeName: spec.nodeName,
    memberRules: undefined,
    logicalVolume: undefined,
    claim: { namespace, name, uid },
  } as const;
  return newLayout(record, [lvmMember(metadata.name, undefined, "Removed", { volumeID, deviceClass })]);
}

function isUnused({ status }: FilesystemLayout): boolean {
  return status?.mounted !== true && status?.lastOperation === undefined;
}
