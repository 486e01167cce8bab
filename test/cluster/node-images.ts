// Puts images onto a cluster's nodes, which have no registry. A node that has an image already is not given it again: containerd itself
// is asked, by name and digest.
import type { PackedImage } from "../../scripts/image/packed-image.ts";
import type { Cluster } from "./cluster-state.ts";
import { importImage } from "./node.ts";
import { enterNode } from "./node-namespaces.ts";
import { nodePlaces } from "./places.ts";
import { runProgram } from "./run-program.ts";

/** Resolves when every node has all of them. */
export async function giveImages(cluster: Cluster, images: readonly PackedImage[]): Promise<void> {
  await Promise.all(
    cluster.nodes.map(async (node) => {
      const there = await imagesOn(cluster, node);
      const missing = images.filter(({ names, digest }) => names.some((name) => there.get(name) !== digest));
      for (const { path } of missing) await importImage(cluster, node, path);
    }),
  );
}

/** Digests by name. */
export async function imagesOn({ places }: Cluster, node: string): Promise<ReadonlyMap<string, string>> {
  const [command, ...enter] = await enterNode(places, nodePlaces(places, node));
  const table = await runProgram(command, [...enter, "ctr", "--namespace=k8s.io", "images", "list"]);
  // REF TYPE DIGEST ..., under a line that names the columns.
  const rows = table.trimEnd().split("\n").slice(1);
  return new Map(
    rows.map((row) => {
      const [name = "", , digest = ""] = row.split(/\s+/);
      return [name, digest] as const;
    }),
  );
}
