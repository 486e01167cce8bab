// Whether each part of a cluster does its work: what it says of itself, and what the API server says of nodes.
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import { NODES, type Node } from "../../src/contracts/kubernetes/resources.ts";
import { waitFor } from "../harness/wait-for.ts";
import { createClusterClient } from "./cluster-client.ts";
import type { Cluster } from "./cluster-state.ts";
import { CONTROL_PLANE, type ControlPlaneComponent } from "./control-plane.ts";
import { nodeProgramName } from "./node.ts";
import { bootIdOf } from "./node-namespaces.ts";
import { nodePlaces } from "./places.ts";
import { lastLines, runningProcess } from "./recorded-process.ts";

const READY_LIMIT_MS = 180_000;
const INTERVAL_MS = 100;
const ANSWER_LIMIT_MS = 2_000;

const HEALTH: Readonly<Record<ControlPlaneComponent, { readonly scheme: "http" | "https"; readonly path: string }>> = {
  etcd: { scheme: "http", path: "/health" },
  "kube-apiserver": { scheme: "https", path: "/readyz" },
  "kube-controller-manager": { scheme: "https", path: "/healthz" },
  "kube-scheduler": { scheme: "https", path: "/readyz" },
};

interface NodeWithBootId extends Node {
  status?: Node["status"] & { nodeInfo?: { bootID: string } };
}

const NODES_WITH_BOOT_ID = NODES as Resource<NodeWithBootId>;

const SERVICE_ACCOUNTS: Resource<KubeObject> = {
  group: "",
  version: "v1",
  plural: "serviceaccounts",
  kind: "ServiceAccount",
  namespaced: true,
};

export async function isControlPlaneReady({ ports }: Cluster, component: ControlPlaneComponent): Promise<boolean> {
  const { scheme, path } = HEALTH[component];
  return (await statusOf(`${scheme}://127.0.0.1:${ports[component]}${path}`)) === 200;
}

/** Rejects when the component ends meanwhile, with its last words. */
export async function controlPlaneReady(cluster: Cluster, component: ControlPlaneComponent): Promise<void> {
  await waitUntil(cluster, `${component} to be ready`, [component], () => isControlPlaneReady(cluster, component));
}

/**
 * The names of nodes that are Ready since they were switched on last: the API server goes on to call a node Ready for a while after
 * it has lost its power. Rejects while it does not answer.
 */
export async function readyNodes(cluster: Cluster): Promise<string[]> {
  const client = createClusterClient(cluster);
  try {
    const { items } = await client.list(NODES_WITH_BOOT_ID);
    return items
      .filter(({ status }) => status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"))
      .filter(
        ({ metadata, status }) => status?.nodeInfo?.bootID === bootIdOf(nodePlaces(cluster.places, metadata.name)),
      )
      .map(({ metadata }) => metadata.name);
  } finally {
    await client.close();
  }
}

export async function nodeReady(cluster: Cluster, node: string): Promise<void> {
  const programs = [node, nodeProgramName(node, "containerd"), nodeProgramName(node, "kubelet")];
  await waitUntil(cluster, `${node} to be Ready`, programs, async () => (await readyNodes(cluster)).includes(node));
}

/** Before the controller-manager has made it, pods in the namespace are refused. */
export async function defaultServiceAccountExists(cluster: Cluster): Promise<void> {
  const client = createClusterClient(cluster);
  const name = { namespace: "default", name: "default" };
  await waitUntil(
    cluster,
    "the default service account",
    CONTROL_PLANE,
    async () => (await client.get(SERVICE_ACCOUNTS, name)) !== undefined,
  ).finally(() => client.close());
}

async function waitUntil(
  { places }: Cluster,
  what: string,
  programs: readonly string[],
  look: () => Promise<boolean>,
): Promise<void> {
  const dead = (): string | undefined => programs.find((name) => runningProcess(places, name) === undefined);
  const otherwise = (): string => lastLines(places, dead() ?? programs.at(-1) ?? "");
  const seen = await waitFor(
    what,
    async () => {
      const name = dead();
      if (name !== undefined) return { ended: name };
      return (await look()) ? { ended: undefined } : undefined;
    },
    { limitMs: READY_LIMIT_MS, intervalMs: INTERVAL_MS, otherwise },
  );
  if (seen.ended !== undefined)
    throw new Error(`${seen.ended} ended while waiting for ${what}; ${lastLines(places, seen.ended)}`);
}

/** Of a component's health endpoint; 0 when nobody answers. Its certificate is its own affair. */
function statusOf(url: string): Promise<number> {
  const request = url.startsWith("https:") ? httpsRequest : httpRequest;
  return new Promise((resolve) => {
    const asking = request(url, { rejectUnauthorized: false, agent: false, timeout: ANSWER_LIMIT_MS }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asking.on("timeout", () => asking.destroy(new Error("no answer")));
    asking.on("error", () => resolve(0));
    asking.end();
  });
}
