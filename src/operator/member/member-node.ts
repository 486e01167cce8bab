// Where a member that is added later must be: within reach of the node that has the volume, and of every other member. Provisioners
// that make volumes for a node are told which; what they make elsewhere is never used.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { SELECTED_NODE_ANNOTATION } from "../../api/names.ts";
import type { Topology } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES, NODES, type PersistentVolume } from "../../kube/resources.ts";
import { describeTopologies, isWithin, sharedTopologies, topologiesOf } from "./volume-topology.ts";

/** The node to make a member for. Undefined: the volume has no member yet whose place would bind it, or no node is in reach. */
export async function memberNode(
  client: KubeClient,
  { spec, metadata }: FilesystemLayout,
  others: readonly PersistentVolume[],
): Promise<string | undefined> {
  if (spec.nodeName !== undefined) return spec.nodeName;
  const [first] = others;
  const reach = reachOf(others);
  if (first === undefined || reach === undefined) return undefined;
  const chosen = metadata.annotations?.[SELECTED_NODE_ANNOTATION];
  const node = chosen === undefined ? undefined : await client.get(NODES, { name: chosen });
  if (node !== undefined && isWithin(reach, node.metadata.labels ?? {})) return node.metadata.name;
  return anyNodeWithin(client, reach, first.spec.csi?.driver);
}

/** Why what was made for a later member cannot be one; undefined: it can. */
export async function strandedVolume(
  client: KubeClient,
  volume: PersistentVolume,
  others: readonly PersistentVolume[],
  nodeName: string | undefined,
): Promise<string | undefined> {
  const own = topologiesOf(volume);
  const reach = reachOf(others);
  if (own === undefined || reach === undefined) return `the node affinity of ${volume.metadata.name} is none of CSI's`;
  const what = `PersistentVolume ${volume.metadata.name} can be used ${describeTopologies(own)}`;
  const advice =
    "nothing is written to it; a class whose driver makes volumes where the first consumer is (WaitForFirstConsumer) is needed";
  if (sharedTopologies(own, reach) === undefined)
    return `${what}, and the volume's other members ${describeTopologies(reach)}: ${advice}`;
  const node = nodeName === undefined ? undefined : await client.get(NODES, { name: nodeName });
  if (node === undefined || isWithin(own, node.metadata.labels ?? {})) return undefined;
  return `${what}, and not on node ${nodeName}, which has the volume: ${advice}`;
}

/** Where all of them can be used. Undefined: nowhere, or somewhere that CSI cannot say. */
function reachOf(volumes: readonly PersistentVolume[]): Topology[] | undefined {
  return volumes.map(topologiesOf).reduce((all, own) => all && own && sharedTopologies(all, own), []);
}

async function anyNodeWithin(
  client: KubeClient,
  reach: readonly Topology[],
  driver: string | undefined,
): Promise<string | undefined> {
  const serving = (await client.list(CSI_NODES)).items
    .filter(({ spec }) => spec.drivers.some(({ name }) => name === driver))
    .map(({ metadata }) => metadata.name);
  for (const labelSelector of reach.length === 0 ? [""] : reach.map(selectorOf)) {
    const { items } = await client.list(NODES, labelSelector === "" ? {} : { labelSelector });
    const names = items.filter(({ spec }) => spec?.unschedulable !== true).map(({ metadata }) => metadata.name);
    const [name] = names.filter((one) => serving.includes(one)).sort();
    if (name !== undefined) return name;
  }
  return undefined;
}

function selectorOf({ segments }: Topology): string {
  return Object.entries(segments)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}
