// The cluster that a suite runs against: the one that KUBECONFIG names, or else one that is made for the suite and removed after it.
// A cluster of `make cluster` keeps all of its powers when it is named by KUBECONFIG; of a foreign one, nothing is switched off. Of a
// cluster that several suites share, each leaves it as it was, and fails where it does not.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { NAMESPACES } from "../../src/contracts/kubernetes/resources.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { kubeconfigConnection } from "../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { removeCluster } from "../cluster/cluster.ts";
import { type Cluster, type ClusterSettings, loadCluster } from "../cluster/cluster-state.ts";
import { BUSYBOX_IMAGE } from "../cluster/images.ts";
import { clusterPlaces } from "../cluster/places.ts";
import { createOwnCluster } from "./own-cluster.ts";
import { isShared, leftAsItWas } from "./shared-state.ts";

const execute = promisify(execFile);
/** Of kubectl: logs of a whole suite. */
const OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024;

export interface ClusterUnderTest {
  readonly client: ConnectedKubeClient;
  readonly kubeconfig: string;
  /** Made for this run. */
  readonly namespace: string;
  /** A busybox. */
  readonly image: string;
  /** Undefined: a foreign cluster. */
  readonly cluster: Cluster | undefined;
  kubectl(...args: string[]): Promise<string>;
  /** What undoes something outside of the namespace: called by `close`, the last one first, unless the whole cluster goes. */
  afterwards(undo: () => Promise<unknown>): void;
  close(): Promise<void>;
}

/** Its nodes can be seen into, and be switched off. */
export function clusterOf({ cluster }: Pick<ClusterUnderTest, "cluster">): Cluster {
  if (cluster === undefined) throw new Error("this is somebody else's cluster, and nobody sees its nodes from outside");
  return cluster;
}

/** "own": made for the suite. "shared": made for several suites, as shared-clusters.ts lists them. */
export type ClusterKind = "own" | "shared" | "ours" | "foreign";

export function clusterKind(): ClusterKind {
  const kubeconfig = process.env["KUBECONFIG"];
  if (kubeconfig === undefined || kubeconfig === "") return "own";
  const places = clusterPlaces(dirname(resolve(kubeconfig)));
  if (isShared(places)) return "shared";
  return existsSync(places.state) ? "ours" : "foreign";
}

/** `settings`: of one that is made for the suite. */
export async function startClusterUnderTest(settings: Partial<ClusterSettings> = {}): Promise<ClusterUnderTest> {
  const cluster = await testedCluster(settings);
  const kubeconfig = cluster?.places.kubeconfig ?? resolve(process.env["KUBECONFIG"] ?? "");
  const client = createKubeClient({ connection: await kubeconfigConnection(kubeconfig), effects: directEffects });
  const namespace = `e2e-${randomUUID().slice(0, 8)}`;
  await client.create("e2e/namespace", NAMESPACES, {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: namespace },
  });
  const kubectl = kubectlOf(cluster?.programs.kubectl ?? "kubectl", kubeconfig, namespace);
  const undoing: (() => Promise<unknown>)[] = [];
  return {
    client,
    kubeconfig,
    namespace,
    image: process.env["BUSYBOX_IMAGE"] ?? (cluster === undefined ? "busybox:stable" : BUSYBOX_IMAGE),
    cluster,
    kubectl,
    afterwards: (undo) => undoing.push(undo),
    close: async () => {
      try {
        if (cluster !== undefined && clusterKind() === "own") await removeCluster(cluster.places);
        else await leave(namespace, kubectl, undoing);
        if (cluster !== undefined && clusterKind() === "shared") await leftAsItWas(cluster, client, kubectl);
      } finally {
        await client.close();
      }
    },
  };
}

export function kubectlOf(program: string, kubeconfig: string, namespace: string): ClusterUnderTest["kubectl"] {
  return async (...args) => {
    const flags = ["--kubeconfig", kubeconfig, "--namespace", namespace];
    return (await execute(program, [...flags, ...args], { maxBuffer: OUTPUT_LIMIT_BYTES })).stdout;
  };
}

/** Volumes go before what makes and removes them does. */
async function leave(
  namespace: string,
  kubectl: ClusterUnderTest["kubectl"],
  undoing: readonly (() => Promise<unknown>)[],
): Promise<void> {
  await kubectl("delete", "namespace", namespace, "--timeout=240s");
  for (const undo of [...undoing].reverse()) await undo();
}

async function testedCluster(settings: Partial<ClusterSettings>): Promise<Cluster | undefined> {
  switch (clusterKind()) {
    case "foreign":
      return undefined;
    case "shared":
    case "ours":
      return loadCluster(dirname(resolve(process.env["KUBECONFIG"] ?? "")));
    case "own":
      return createOwnCluster(settings);
  }
}
