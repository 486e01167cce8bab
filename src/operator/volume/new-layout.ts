// Makes a FilesystemLayout that is not there yet, and never changes one that is: it is the map of somebody's data. An apply alone would
// overwrite it, and a plain create would own its fields for ever; so the name is taken first, by a blank one that the apply fills in.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { ApplyConfiguration, KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { EffectPoint } from "../../process/effects.ts";
import { isBlank } from "./layout-facts.ts";

/** Undefined where there is none, or a blank one that a crash has left. Throws KubeError. */
export async function readLayout(client: KubeClient, handle: string): Promise<FilesystemLayout | undefined> {
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  return layout === undefined || isBlank(layout) ? undefined : layout;
}

/** Undefined: there is one by now, whoever made it, and it stays as it is. Throws KubeError. */
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
