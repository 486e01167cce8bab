// A volume group for each node of a test cluster: real LVM on real metadata, its volumes on loop devices, since these nodes share a
// kernel that may have no device-mapper. The e2e overlay's lvmd runs LVM's commands by the path that every node has them at.
import type { Cluster } from "../cluster/cluster-state.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { VOLUME_GROUP } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";

/** By the node's name. They go with the cluster, and are there again when a node has its power back. */
export async function giveVolumeGroups(
  { places }: Cluster,
  sizesBytes: Readonly<Record<string, number>>,
): Promise<Record<string, LvmOnLoop>> {
  const grounds = Object.entries(sizesBytes).map(async ([name, sizeBytes]) => {
    const node = nodePlaces(places, name);
    const ground = await createLvmOnLoop(node.lvm, await enterNode(places, node));
    await ground.addGroup(VOLUME_GROUP, sizeBytes);
    return [name, ground] as const;
  });
  return Object.fromEntries(await Promise.all(grounds));
}
