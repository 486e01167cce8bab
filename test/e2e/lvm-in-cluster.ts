// A volume group for each node of a test cluster: real LVM on real metadata, its volumes on loop devices, since these nodes share a
// kernel that may have no device-mapper. The overlay e2e-lvm runs LVM's commands by the path that every node has them at.
import type { Cluster } from "../cluster/cluster-state.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { VOLUME_GROUP } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { createLvmOnLoop, type LvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
import { onNode } from "./node-shell.ts";

/** As the overlay's lvmd.yaml calls it, on each node. */
export const DEVICE_CLASS = "ssd";

/** As LVM's report tells it. */
export interface VolumeOnNode {
  readonly node: string;
  readonly name: string;
  readonly sizeBytes: number;
  readonly tags: readonly string[];
}

export interface GroupOnNode {
  readonly sizeBytes: number;
  readonly freeBytes: number;
}

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

/** On every node; as LVM finds them, not lvmd. */
export async function volumesOnNodes(cluster: Cluster): Promise<VolumeOnNode[]> {
  const found = cluster.nodes.map(async (node) => {
    const rows = await report(cluster, node, "lvs", "lv", "lv_name,lv_size,lv_tags");
    return rows.map(({ lv_name = "", lv_size, lv_tags = "" }) => ({
      node,
      name: lv_name,
      sizeBytes: Number(lv_size),
      tags: lv_tags.split(",").sort(),
    }));
  });
  return (await Promise.all(found)).flat();
}

export async function groupOnNode(cluster: Cluster, node: string): Promise<GroupOnNode> {
  const [row] = await report(cluster, node, "vgs", "vg", "vg_size,vg_free");
  return { sizeBytes: Number(row?.["vg_size"]), freeBytes: Number(row?.["vg_free"]) };
}

async function report(
  cluster: Cluster,
  node: string,
  command: string,
  section: string,
  fields: string,
): Promise<Readonly<Record<string, string>>[]> {
  const options = ["--reportformat", "json", "--units", "b", "--nosuffix", "-o", fields];
  const told = await onNode(cluster, node, "/etc/lvm/lvm-on-loop", command, ...options);
  const {
    report: [sections = {}],
  } = JSON.parse(told) as { report: Record<string, Record<string, string>[]>[] };
  return sections[section] ?? [];
}
