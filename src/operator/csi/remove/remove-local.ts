// The end of a volume that lies on one node, once its layout asks for it. The node removes the data and reports that; only then the
// volume's objects go, the layout last, so that a repeated call resumes wherever the last one ended. A node that is gone permanently is
// not waited for: nothing is removed there, and if it ever returns, its agent reports what it still has. So ends, too, a logical volume
// that was made for a volume that no user will get: its claim is gone, or it is wanted on another node.
import { Refusal } from "../../../contracts/csi/refusal.ts";
import { fsidOf, volumeUIDOf } from "../../../contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../../contracts/kinds/logical-volume.ts";
import { NODES, PERSISTENT_VOLUMES } from "../../../contracts/kubernetes/resources.ts";
import type { ApplyConfiguration, KubeClient } from "../../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../../platform/kube/events/events.ts";
import { type LayoutWriter, makeLayout, readLayout } from "../../apply/volume-objects.ts";
import { isRemoved, isRemoving } from "../../decide/layout-facts.ts";
import type { LayoutWatch } from "../../gather/cache-waits.ts";
import type { VolumeCaches } from "../../gather/volume-caches.ts";
import { madeVolume } from "../../lvm/logical-volume-state.ts";
import { lvmMember, newLayout } from "../../volumes/layout-fields.ts";
import { isOurVolume, sizesOfRecords } from "../../volumes/volume-record.ts";
import { isLost } from "../volume-checks.ts";
import { askRemoval, deleteObjects } from "./remove-volume.ts";

export interface RemovingLocal {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "persistentVolumes">;
  readonly watch: LayoutWatch;
  readonly events: EventRecorder;
  /** How long one call waits for the node. */
  readonly removalWaitLimitMs: number;
}

/** Then nothing is left but what is on a node that `isGone`. Throws Refusal and KubeError. */
export async function removeLocal(
  removing: RemovingLocal,
  layout: FilesystemLayout,
  isGone: (client: KubeClient, nodeName: string) => Promise<boolean>,
): Promise<void> {
  const { client } = removing;
  const { name: handle } = layout.metadata;
  const { nodeName } = layout.spec;
  if (nodeName === undefined || (await isGone(client, nodeName))) reportLeftBehind(removing, layout);
  else await waitForRemoval(removing, layout);
  const logicalVolume = layout.spec.backend === "lvm" ? await client.get(LOGICAL_VOLUMES, { name: handle }) : undefined;
  if (logicalVolume !== undefined) {
    const { uid, resourceVersion } = logicalVolume.metadata;
    await client.delete("delete-volume/logical-volume", LOGICAL_VOLUMES, { name: handle }, { uid, resourceVersion });
  }
  await deleteObjects(client, layout);
}

/** One that is out of service may return, and what it has is not left behind. */
export async function isNodeGone(client: KubeClient, nodeName: string): Promise<boolean> {
  return (await client.get(NODES, { name: nodeName })) === undefined;
}

function reportLeftBehind({ caches, events }: RemovingLocal, layout: FilesystemLayout): void {
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
    `Deleted. Node ${nodeName} is gone and still has the data: if it returns, remove ${what} there by hand`,
  );
}

/** Until nothing of the volume is left on its node. */
async function waitForRemoval({ watch, removalWaitLimitMs }: RemovingLocal, layout: FilesystemLayout): Promise<void> {
  const last = await watch.until(layout, isRemoved, removalWaitLimitMs);
  if (last === undefined || isRemoved(last)) return;
  const stalled = last.status?.conditions?.find(({ type, status }) => type === "Stalled" && status === "True");
  const why = stalled === undefined ? "" : `; the node says: ${stalled.message}`;
  throw new Refusal(
    "ABORTED",
    `${layout.metadata.name}: node ${layout.spec.nodeName} has not confirmed within ${removalWaitLimitMs} ms that the data is removed${why}; it goes on, ask again`,
  );
}

export interface Abandoning extends RemovingLocal {
  readonly layouts: LayoutWriter;
}

/**
 * Afterwards nothing is left of it, or it is in use and stays. Throws the Refusal of what it waits for, and KubeError.
 */
export async function abandonLvm(abandoning: Abandoning, handle: string): Promise<void> {
  const { client, layouts } = abandoning;
  const volumes = await client.list(PERSISTENT_VOLUMES);
  if (volumes.items.some((volume) => isOurVolume(volume) && volume.spec.csi?.volumeHandle === handle)) return;
  const layout = (await readLayout(client, handle)) ?? (await removalOf(abandoning, handle));
  if (layout === undefined) return;
  const asked = await askRemoval(layouts, layout, isUnused);
  if (asked !== undefined && isRemoving(asked)) await removeLocal(abandoning, asked, isLost);
}

/**
 * A layout that asks for the removal of a volume of which only a LogicalVolume is known; undefined: there is no such
 * object either. Throws as above.
 */
export async function removalOf(
  { client }: Pick<Abandoning, "client">,
  handle: string,
): Promise<FilesystemLayout | undefined> {
  const logicalVolume = await client.get(LOGICAL_VOLUMES, { name: handle });
  if (logicalVolume === undefined) return undefined;
  const made = await makeLayout(client, "delete-volume/layout-of-logical-volume", removalLayout(logicalVolume));
  if (made === undefined)
    throw new Refusal("ABORTED", `${handle}: its FilesystemLayout was created concurrently; retry`);
  return made;
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
    ...sizesOfRecords(undefined),
    memberRules: undefined,
    logicalVolume: undefined,
    claim: { namespace, name, uid },
  } as const;
  return newLayout(record, [lvmMember(metadata.name, undefined, "Removed", { volumeID, deviceClass })]);
}

function isUnused({ status }: FilesystemLayout): boolean {
  return status?.mounted !== true && status?.lastOperation === undefined;
}
