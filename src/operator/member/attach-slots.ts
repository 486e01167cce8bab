// Whether a node has attach slots left for a volume's members, by what their drivers say on its CSINode. Every VolumeAttachment
// of the node counts, as for the scheduler.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES, VOLUME_ATTACHMENTS, type VolumeAttachment } from "../../kube/resources.ts";
import { attachmentName } from "./member-names.ts";

/** Why it has not, with driver, limit and use; undefined: it has. Throws KubeError. */
export async function lackOfSlots(
  client: KubeClient,
  nodeName: string,
  members: readonly { readonly name: string; readonly driver: string }[],
  layout: FilesystemLayout,
): Promise<string | undefined> {
  const csiNode = await client.get(CSI_NODES, { name: nodeName });
  const limits = new Map(csiNode?.spec.drivers.map(({ name, allocatable }) => [name, allocatable?.count]));
  const limited = members.filter(({ driver }) => limits.get(driver) !== undefined);
  if (limited.length === 0) return undefined;
  const attachments = (await client.list(VOLUME_ATTACHMENTS)).items;
  const names = new Set(limited.map(({ name }) => attachmentName(layout.metadata.name, name, nodeName)));
  for (const driver of new Set(limited.map((member) => member.driver))) {
    const limit = limits.get(driver) ?? 0;
    const wanted = limited.filter((member) => member.driver === driver).length;
    const used = usedSlots(attachments, driver, nodeName, names);
    if (used + wanted > limit)
      return `${layout.metadata.name}: ${driver} attaches at most ${limit} volumes to node ${nodeName}, ${used} are there, and ${wanted} more are needed`;
  }
  return undefined;
}

/** The volume's own, from an earlier attempt, are not counted twice. */
function usedSlots(
  attachments: readonly VolumeAttachment[],
  driver: string,
  nodeName: string,
  own: ReadonlySet<string>,
): number {
  return attachments.filter(
    ({ metadata, spec }) => spec.attacher === driver && spec.nodeName === nodeName && !own.has(metadata.name),
  ).length;
}
