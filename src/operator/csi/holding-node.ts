// Which node still has a volume's filesystem mounted: while one does, its members stay attached there. A node that is gone, or that
// an administrator has declared out of service, holds nothing any more.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client.ts";
import { NODES } from "../../kube/resources.ts";

const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";

export async function holdingNode(client: KubeClient, { status }: FilesystemLayout): Promise<string | undefined> {
  if (status?.mounted !== true || status.nodeName === undefined) return undefined;
  return (await isLost(client, status.nodeName)) ? undefined : status.nodeName;
}

export async function isLost(client: KubeClient, nodeName: string): Promise<boolean> {
  const node = await client.get(NODES, { name: nodeName });
  return node === undefined || (node.spec?.taints ?? []).some(({ key }) => key === OUT_OF_SERVICE);
}
