// Tidemark in a cluster as its users install it: its image on the nodes, and `kubectl apply -k` of the foundation and of
// an overlay. Nothing here knows what the
// manifests contain but the namespace.
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import type { Image } from "../../scripts/image/oci-archive.ts";
import { type PackedImage, packedImage } from "../../scripts/image/packed-image.ts";
import { sidecarImages } from "../../scripts/image/sidecar-images.ts";
import { tidemarkImage } from "../../scripts/image/tidemark-image.ts";
import { RELEASE } from "../../src/contracts/names.ts";
import type { ApplyConfiguration } from "../../src/platform/kube/client/client.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { builtTools } from "../cluster/go-tools.ts";
import { giveImages } from "../cluster/node-images.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { isShared, standingOverlay } from "./shared-state.ts";

export const SYSTEM_NAMESPACE = "tidemark-system";
/** What protects data: applied before each overlay, and in none of them. */
export const FOUNDATION = fileURLToPath(new URL("../../kustomize/foundation", import.meta.url));
export const OVERLAY = overlay("e2e");
/** With lvmd beside each agent, on the volume groups of test/e2e/lvm-in-cluster.ts. */
export const LVM_OVERLAY = overlay("e2e-lvm");
/** That one with the second scheduler and the extender. */
export const PLACEMENT_OVERLAY = overlay("e2e-placement");
/** That one with the component network-policies. */
export const NETWORK_POLICIES_OVERLAY = overlay("e2e-network-policies");
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

/** Puts the images on each node that lacks one. A foreign cluster must have them already: it pulls from its own registry. */
export async function loadImages({ cluster }: Pick<ClusterUnderTest, "cluster">): Promise<void> {
  if (cluster === undefined) return;
  const programs = await builtTools("kubernetes", () => undefined);
  await give(cluster, [tidemarkImage(`tidemark:${RELEASE}`, DIST), ...sidecarImages(programs)]);
}

/** Of the component placement. */
export async function loadScheduler({ cluster }: ClusterUnderTest): Promise<void> {
  if (cluster === undefined) return;
  await give(cluster, sidecarImages(await builtTools("kubernetes", () => undefined), PLACEMENT_OVERLAY));
}

/** Packed once for all clusters. */
export async function give(cluster: Cluster, images: readonly Image[]): Promise<void> {
  const packed: PackedImage[] = [];
  for (const image of images) packed.push(await packedImage(image));
  await giveImages(cluster, packed);
}

/** Resolves when every pod of it is Ready. A shared cluster gets its own overlay back afterwards. */
export async function install(
  tested: Pick<ClusterUnderTest, "kubectl"> & Partial<Pick<ClusterUnderTest, "cluster" | "afterwards">>,
  overlayPath: string = OVERLAY,
): Promise<void> {
  const { kubectl, cluster, afterwards } = tested;
  const standing = cluster !== undefined && isShared(cluster.places) ? standingOverlay(cluster.places) : overlayPath;
  if (standing !== overlayPath) afterwards?.(() => takeBack({ kubectl }, overlayPath, standing));
  await apply({ kubectl }, overlayPath);
  await everyPodReady({ kubectl });
}

async function apply({ kubectl }: Pick<ClusterUnderTest, "kubectl">, overlayPath: string): Promise<void> {
  await kubectl("apply", "--server-side", "--kustomize", FOUNDATION);
  await kubectl("--namespace", SYSTEM_NAMESPACE, "apply", "--server-side", "--kustomize", overlayPath);
}

/** What only the first overlay has is deleted, and the second one's is as it says. */
async function takeBack(
  { kubectl }: Pick<ClusterUnderTest, "kubectl">,
  overlayPath: string,
  standing: string,
): Promise<void> {
  const kept = new Set(await objectsOf({ kubectl }, standing));
  const added = (await objectsOf({ kubectl }, overlayPath)).filter((object) => !kept.has(object));
  for (const object of added) {
    const [kind = "", namespace = "", name = ""] = object.split(" ");
    await kubectl("--namespace", namespace, "delete", kind, name, "--wait", "--ignore-not-found");
  }
  await apply({ kubectl }, standing);
  await everyPodReady({ kubectl });
}

/** "kind namespace name". */
async function objectsOf({ kubectl }: Pick<ClusterUnderTest, "kubectl">, overlayPath: string): Promise<string[]> {
  return parseAllDocuments(await kubectl("kustomize", overlayPath)).map((document) => {
    const { apiVersion, kind, metadata } = document.toJS() as ApplyConfiguration;
    const [version, group] = apiVersion.split("/").reverse();
    const resource = group === undefined ? kind : `${kind}.${version}.${group}`;
    return [resource, metadata.namespace ?? SYSTEM_NAMESPACE, metadata.name].join(" ");
  });
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
