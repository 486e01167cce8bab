// The end of a volume that lies on one node, once its layout asks for it: the node removes the data and says so, and only then its
// objects go, the layout last, so that a repeated call resumes wherever the last one ended. A node that is gone for good is not waited
// for: nothing is removed there, and what it still has if it ever returns is reported by its agent.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../api/logical-volume.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { NODES } from "../../kube/resources.ts";
import { isRemoved } from "../volume/layout-facts.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { deleteObjects } from "./remove-volume.ts";

export interface RemovingLocal {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "persistentVolumes">;
  readonly watch: LayoutWatch;
  readonly events: EventRecorder;
  /** How long one call waits for the node. */
  readonly removalWaitLimitMs: number;
}

/** Undefined once nothing is left but what is on a node that `isGone`. Throws KubeError. */
export async function removeLocal(
  removing: RemovingLocal,
  layout: FilesystemLayout,
  isGone: (client: KubeClient, nodeName: string) => Promise<boolean>,
): Promise<Refusal | undefined> {
  const { client } = removing;
  const { name: handle } = layout.metadata;
  const { nodeName } = layout.spec;
  const pending =
    nodeName === undefined || (await isGone(client, nodeName))
      ? reportLeftBehind(removing, layout)
      : await waitForRemoval(removing, layout);
  if (pending !== undefined) return pending;
  const logicalVolume = layout.spec.backend === "lvm" ? await client.get(LOGICAL_VOLUMES, { name: handle }) : undefined;
  if (logicalVolume !== undefined) {
    const { uid, resourceVersion } = logicalVolume.metadata;
    await client.delete("delete-volume/logical-volume", LOGICAL_VOLUMES, { name: handle }, { uid, resourceVersion });
  }
  await deleteObjects(client, layout);
  return undefined;
}

/** One that is out of service may return, and what it has is not left behind. */
export async function isNodeGone(client: KubeClient, nodeName: string): Promise<boolean> {
  return (await client.get(NODES, { name: nodeName })) === undefined;
}

function reportLeftBehind({ caches, events }: RemovingLocal, layout: FilesystemLayout): undefined {
  const { nodeName, members } = layout.spec;
  if (nodeName === undefined || isRemoved(layout)) return;
  const { name: handle } = layout.metadata;
  const source = members?.[0]?.source;
  const what = source?.logicalVolume?.volumeID ?? source?.loop?.file ?? "its data";
  const [volume] = caches.persistentVolumes.store.byIndex("handle", handle);
  events.record(
    volume ?? { ...layout, kind: FILESYSTEM_LAYOUTS.kind },
    "Warning",
    "NodeLost",
    `${handle} is deleted without the word of node ${nodeName}, which is gone: nothing was removed there, and if it returns, ${what} on it belongs to no volume any more`,
  );
}

/** Undefined once nothing of the volume is left on its node. */
async function waitForRemoval(
  { watch, removalWaitLimitMs }: RemovingLocal,
  layout: FilesystemLayout,
): Promise<Refusal | undefined> {
  const last = await watch.until(layout, isRemoved, removalWaitLimitMs);
  if (last === undefined || isRemoved(last)) return undefined;
  const stalled = last.status?.conditions?.find(({ type, status }) => type === "Stalled" && status === "True");
  const why = stalled === undefined ? "" : `; the node says: ${stalled.message}`;
  return new Refusal(
    "ABORTED",
    `${layout.metadata.name}: node ${layout.spec.nodeName} has not confirmed within ${removalWaitLimitMs} ms that the data is removed${why}; it goes on, ask again`,
  );
}
