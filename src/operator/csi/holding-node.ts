// Which node still has a volume's filesystem mounted, or may have: while one does, its members stay attached there. A node that is
// gone, or that an administrator has declared out of service, holds nothing any more.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { NODES } from "../../kube/resources.ts";
import { lossOf } from "../node-loss/lost-node.ts";
import { isUnheard, saidHolder } from "../volume/layout-facts.ts";

export async function holdingNode(client: KubeClient, layout: FilesystemLayout): Promise<string | undefined> {
  const holder = saidHolder(layout);
  return holder === undefined || (await isLost(client, holder)) ? undefined : holder;
}

/**
 * Whether somebody holds it now who was not known to when it was decided that `before` is held by nobody, or by a node that is lost.
 * A layout that was made anew meanwhile is decided on again.
 */
export function isHeldSince(before: FilesystemLayout, now: FilesystemLayout): boolean {
  const holder = saidHolder(now);
  return now.metadata.uid !== before.metadata.uid || (holder !== undefined && holder !== saidHolder(before));
}

/** Where, for people. */
export function describeHolder(layout: FilesystemLayout, holder: string): string {
  return isUnheard(layout)
    ? `perhaps mounted on node ${holder}, whose agent has not said so since the volume's FilesystemLayout was made again`
    : `still mounted on node ${holder}`;
}

export async function isLost(client: KubeClient, nodeName: string): Promise<boolean> {
  return lossOf(await client.get(NODES, { name: nodeName })) !== undefined;
}
