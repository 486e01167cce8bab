// Writes a volume's layout and its Filesystem. A layout that exists is changed under the very version that was decided on, and decided on
// again when another writer was faster: the agent's status writes move the version too, so conflicts are ordinary. A new one never
// overwrites one that exists, which is the map of a user's data.

import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import type { ApplyConfiguration, KubeClient } from "../../platform/kube/client/client.ts";
import { onLatest } from "../../platform/kube/client/writes.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { EffectPoint } from "../../platform/process/effects/effects.ts";
import { isBlank } from "../decide/layout-facts.ts";
import { changedLayout, filesystemOf, type LayoutFields } from "../volumes/layout-fields.ts";
import type { ClaimIdentity } from "../volumes/volume-record.ts";

/** Decides on the layout as it is; undefined: nothing to write. It writes nothing itself. */
type LayoutChange = (layout: FilesystemLayout) => LayoutFields | undefined | Promise<LayoutFields | undefined>;

export interface LayoutWriter {
  /**
   * Applies a change to `layout`, which may come from a cache. Returns the layout as it is then, or undefined when it is
   * gone. Idempotent as far as `change` is. Throws KubeError.
   */
  update(point: EffectPoint, layout: FilesystemLayout, change: LayoutChange): Promise<FilesystemLayout | undefined>;
}

export function createLayoutWriter(client: KubeClient): LayoutWriter {
  return {
    update: (point, layout, change) =>
      onLatest<FilesystemLayout | undefined, FilesystemLayout | undefined>(
        layout,
        () => client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name }),
        async (current) => {
          const fields = current && (await change(current));
          if (current === undefined || fields === undefined) return current;
          return client.apply(point, FILESYSTEM_LAYOUTS, changedLayout(current, fields), {
            fieldManager: FIELD_MANAGERS.operator,
            force: true,
          });
        },
      ),
  };
}

/** Undefined where there is none, or a blank one that a crash has left. Throws KubeError. */
export async function readLayout(client: KubeClient, handle: string): Promise<FilesystemLayout | undefined> {
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  return layout === undefined || isBlank(layout) ? undefined : layout;
}

/**
 * An apply alone would overwrite a layout, and a plain create would own its fields without end: a blank one takes the name first, and the
 * apply fills it in. Undefined: a layout exists by now, from this or another process, and stays as it is. Throws KubeError.
 */
export async function makeLayout(
  client: KubeClient,
  point: EffectPoint,
  configuration: ApplyConfiguration,
): Promise<FilesystemLayout | undefined> {
  const blank = await takeName(client, configuration.metadata.name);
  if (blank === undefined) return undefined;
  const { uid, resourceVersion } = blank.metadata;
  const filled = { ...configuration, metadata: { ...configuration.metadata, uid, resourceVersion } };
  try {
    return await client.apply(point, FILESYSTEM_LAYOUTS, filled, {
      fieldManager: FIELD_MANAGERS.operator,
      force: true,
    });
  } catch (error) {
    if (isKubeError(error, "Conflict")) return undefined;
    throw error;
  }
}

/** A crash after it leaves a blank layout, which the next attempt fills in or takes away. */
async function takeName(client: KubeClient, name: string): Promise<FilesystemLayout | undefined> {
  const blank: FilesystemLayout = { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name }, spec: {} };
  try {
    return await client.create("new-layout/take-name", FILESYSTEM_LAYOUTS, blank);
  } catch (error) {
    if (!isKubeError(error, "AlreadyExists")) throw error;
    const existing = await client.get(FILESYSTEM_LAYOUTS, { name });
    return existing !== undefined && isBlank(existing) ? existing : undefined;
  }
}

/** Nothing was ever made for a blank one. */
export async function dropBlank(client: KubeClient, handle: string): Promise<void> {
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout === undefined || !isBlank(layout)) return;
  const { uid, resourceVersion } = layout.metadata;
  await client.delete("new-layout/drop", FILESYSTEM_LAYOUTS, { name: handle }, { uid, resourceVersion });
}

/**
 * Idempotent. A Filesystem of an earlier claim of this name, or one restored from a backup, carries a target that was never
 * decided for this volume: it goes first, which loses no data. Throws KubeError.
 */
export async function writeFilesystem(
  client: KubeClient,
  claim: ClaimIdentity,
  ownedByClaim: boolean,
): Promise<Filesystem> {
  const existing = await client.get(FILESYSTEMS, { namespace: claim.namespace, name: claim.name });
  if (existing !== undefined && existing.spec.claimRef?.uid !== claim.uid)
    await client.delete("write-filesystem/delete-former", FILESYSTEMS, existing.metadata, {
      uid: existing.metadata.uid,
    });
  return client.apply("write-filesystem/apply", FILESYSTEMS, filesystemOf(claim, ownedByClaim), {
    fieldManager: FIELD_MANAGERS.operator,
    force: true,
  });
}
