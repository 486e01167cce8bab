// The end of a span volume, once it is decided: its members, then its objects. The layout says so first, which keeps nodes and
// reconcilers away, and goes last, so that a repeated call resumes wherever the last one ended.
import { FILESYSTEMS } from "../../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import type { KubeClient } from "../../../platform/kube/client/client.ts";
import type { tearDownSpan } from "../../apply/tear-down-span.ts";
import type { LayoutWriter } from "../../apply/volume-objects.ts";
import { isRemoving } from "../../decide/layout-facts.ts";
import type { VolumeChanges } from "../../gather/cache-waits.ts";
import { removedMembers } from "../../volumes/layout-fields.ts";

export interface Removing {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly changes: VolumeChanges;
}

/** Well under csi-provisioner's own timeout of 30 s, after which it would ask again anyway. */
export const REMOVAL_WAIT_LIMIT_MS = 8000;

/**
 * Undefined once nothing is left of it; else what it waits for. `mayGo`: what it was decided on, which must hold for the layout as it
 * is when it is asked to go. `tearDown`: what of it goes. Throws KubeError.
 */
export async function removeVolume(
  { client, layouts, changes }: Removing,
  layout: FilesystemLayout,
  mayGo: (layout: FilesystemLayout) => boolean,
  tearDown: typeof tearDownSpan,
): Promise<string | undefined> {
  const { name: handle } = layout.metadata;
  const asked = await askRemoval(layouts, layout, mayGo);
  if (asked === undefined) return undefined;
  if (!isRemoving(asked)) return "it was used concurrently, and stays";
  const { volumeUID } = asked.spec;
  if (volumeUID === undefined) return `${handle} does not say its volume UID`;
  const left = await changes.until(handle, () => tearDown(client, handle, volumeUID), REMOVAL_WAIT_LIMIT_MS);
  if (left === undefined) await deleteObjects(client, asked);
  return left;
}

/** The layout as it is then, asked to go only if it still is the one that was decided on; undefined: it is gone. */
export function askRemoval(
  layouts: LayoutWriter,
  layout: FilesystemLayout,
  mayGo: (layout: FilesystemLayout) => boolean,
): Promise<FilesystemLayout | undefined> {
  return layouts.update("delete-volume/ask-removal", layout, (current) => {
    const isSame = current.metadata.uid === layout.metadata.uid;
    return isRemoving(current) || !isSame || !mayGo(current) ? undefined : { members: removedMembers(current) };
  });
}

export async function deleteObjects(client: KubeClient, layout: FilesystemLayout): Promise<void> {
  const { namespace, name, uid } = layout.spec.claimRef ?? {};
  if (namespace && name) {
    const filesystem = await client.get(FILESYSTEMS, { namespace, name });
    // A new claim of the same name has its own Filesystem under this name.
    if (filesystem !== undefined && filesystem.spec.claimRef?.uid === uid)
      await client.delete(
        "delete-volume/filesystem",
        FILESYSTEMS,
        { namespace, name },
        { uid: filesystem.metadata.uid },
      );
  }
  await client.delete(
    "delete-volume/layout",
    FILESYSTEM_LAYOUTS,
    { name: layout.metadata.name },
    { uid: layout.metadata.uid },
  );
}
