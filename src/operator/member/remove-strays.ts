// Detaches a volume's members from nodes where the volume is not published: what is left of a step that was under way when it was
// unpublished. Never from a node that says that it has the volume mounted.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { VolumeAttachment } from "../../kube/resources.ts";
import { saidHolder } from "../volume/layout-facts.ts";
import type { MemberCaches } from "./member-facts.ts";
import { attachmentsOf, detach } from "./tear-down-member.ts";

/** Returns what it waits for. Throws KubeError. */
export async function removeStrays(
  client: KubeClient,
  caches: MemberCaches,
  { metadata: { name: handle }, spec: cached }: FilesystemLayout,
): Promise<string[]> {
  const seen = caches.attachments.store.byIndex("volume", handle);
  if (cached.volumeUID === undefined || seen.every(({ spec }) => spec.nodeName === cached.nodeName)) return [];
  // Before the layout is read: an attachment that is made after that belongs to a node that the volume is given to meanwhile.
  const listed = new Set((await attachmentsOf(client, cached.volumeUID)).map(({ metadata }) => metadata.uid));
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (live === undefined || live.spec.volumeUID !== cached.volumeUID) return [];
  const { nodeName } = live.spec;
  const isMountedOn = (node: string): boolean => saidHolder(live) === node;
  const isStray = ({ metadata, spec }: VolumeAttachment): boolean =>
    listed.has(metadata.uid) && spec.nodeName !== nodeName && !isMountedOn(spec.nodeName);
  const left = await detach(client, cached.volumeUID, isStray);
  return left.map(({ spec }) => `to be detached from node ${spec.nodeName}`);
}
