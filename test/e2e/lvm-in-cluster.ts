// A volume group for each node of a test cluster: real LVM on real metadata, its volumes on loop devices, since these nodes share a
// kernel that may have no device-mapper. The overlay e2e-lvm runs LVM's commands by the path that every node has them at.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { VOLUME_GROUP } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { createLvmOnLoop } from "../lvm-on-loop/lvm-on-loop.ts";
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

export const [SMALL_NODE, LARGE_NODE] = ["node1", "node2"] as const;
/** Two and three volumes of 4 GiB; one of 12 GiB fits on one of them alone, and one of 30 GiB on neither. */
export const GROUP_BYTES = { [SMALL_NODE]: 8 * GIB + 512 * MIB, [LARGE_NODE]: 12 * GIB + 512 * MIB };

/** Unless they are there. They go with the cluster, and are there again when a node has its power back. */
export async function giveVolumeGroups(cluster: Cluster): Promise<void> {
  const lacking = Object.entries(GROUP_BYTES).filter(([node]) => !hasVolumeGroup(cluster, node));
  await Promise.all(
    lacking.map(async ([name, sizeBytes]) => {
      const node = nodePlaces(cluster.places, name);
      const ground = await createLvmOnLoop(node.lvm, await enterNode(cluster.places, node));
      await ground.addGroup(VOLUME_GROUP, sizeBytes);
    }),
  );
}

export function hasVolumeGroup({ places }: Cluster, node: string): boolean {
  return existsSync(join(nodePlaces(places, node).lvm, "groups", `${VOLUME_GROUP}.img`));
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
