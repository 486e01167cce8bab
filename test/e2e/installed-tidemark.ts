// Tidemark in a cluster as its users install it: its image on the nodes, and one `kubectl apply -k`. Nothing here knows what the
// manifests contain but the namespace.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeSidecarImages } from "../../scripts/image/sidecar-images.ts";
import { writeTidemarkImage } from "../../scripts/image/tidemark-image.ts";
import { RELEASE } from "../../src/api/names.ts";
import { builtTools } from "../cluster/go-tools.ts";
import { importImage } from "../cluster/node.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";

export const SYSTEM_NAMESPACE = "tidemark-system";
export const OVERLAY = overlay("e2e");
/** With lvmd beside each agent, on the volume groups of test/e2e/lvm-in-cluster.ts. */
export const LVM_OVERLAY = overlay("e2e-lvm");
/** That one with the second scheduler and the extender. */
export const PLACEMENT_OVERLAY = overlay("e2e-placement");
/** The first one with the component placement: its scheduler has no image there, and none is asked for. */
export const POD_WEBHOOK_OVERLAY = overlay("e2e-pod-webhook");
/** The same with csi-snapshotter, on a cluster that test/e2e/snapshots-in-cluster.ts has prepared. */
export const SNAPSHOTS_OVERLAY = overlay("e2e-snapshots");
const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const ROLLOUT_LIMIT = "--timeout=300s";
export const WORKLOADS = ["daemonset/agent", "deployment/operator", "deployment/policy-engine"] as const;

function overlay(name: string): string {
  return fileURLToPath(new URL(`../../kustomize/overlays/${name}`, import.meta.url));
}

/** Packs the images and puts them on each node. A foreign cluster must have them already: it pulls from its own registry. */
export async function loadImages({ cluster }: ClusterUnderTest): Promise<void> {
  if (cluster === undefined) return;
  const directory = join(cluster.places.directory, "tidemark-images");
  const sidecars = await writeSidecarImages(await builtTools("kubernetes", () => undefined), directory);
  const own = join(directory, "tidemark.tar");
  await writeTidemarkImage(own, `tidemark:${RELEASE}`, DIST);
  for (const node of cluster.nodes) for (const archive of [own, ...sidecars]) await importImage(cluster, node, archive);
}

/** Of the component placement. */
export async function loadScheduler({ cluster }: ClusterUnderTest): Promise<void> {
  if (cluster === undefined) return;
  const directory = join(cluster.places.directory, "scheduler-image");
  const programs = await builtTools("kubernetes", () => undefined);
  const archives = await writeSidecarImages(programs, directory, PLACEMENT_OVERLAY);
  for (const node of cluster.nodes) for (const archive of archives) await importImage(cluster, node, archive);
}

/** Resolves when every pod of it is Ready. */
export async function install({ kubectl }: ClusterUnderTest, overlayPath: string = OVERLAY): Promise<void> {
  await kubectl("--namespace", SYSTEM_NAMESPACE, "apply", "--server-side", "--kustomize", overlayPath);
  await everyPodReady({ kubectl });
}

export async function everyPodReady({ kubectl }: Pick<ClusterUnderTest, "kubectl">): Promise<void> {
  for (const workload of WORKLOADS)
    await kubectl("--namespace", SYSTEM_NAMESPACE, "rollout", "status", workload, ROLLOUT_LIMIT);
}

/** All that its containers have said, the previous ones of restarted containers included; of each pod the last characters. */
export async function logsOf(
  { kubectl }: Pick<ClusterUnderTest, "kubectl">,
  charactersPerPod = Number.POSITIVE_INFINITY,
): Promise<string> {
  const pods = await podNames({ kubectl });
  const logs = pods.map(async (pod) => {
    const said = await kubectl("-n", SYSTEM_NAMESPACE, "logs", pod, "--all-containers", "--prefix", "--tail=-1");
    return `${pod}\n${said.slice(-charactersPerPod)}`;
  });
  return (await Promise.all(logs)).join("\n");
}

export async function podNames({ kubectl }: Pick<ClusterUnderTest, "kubectl">, selector = ""): Promise<string[]> {
  const path = "jsonpath={.items[*].metadata.name}";
  const names = await kubectl("-n", SYSTEM_NAMESPACE, "get", "pods", "--selector", selector, "--output", path);
  return names.split(" ").filter((name) => name !== "");
}
