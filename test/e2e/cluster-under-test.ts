// The cluster that a suite runs against: the one that KUBECONFIG names, or else one that is made for the suite and removed after it.
// A cluster of `make cluster` keeps all of its powers when it is named by KUBECONFIG; of a foreign one, nothing is switched off.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { promisify } from "node:util";
import { type ConnectedKubeClient, createKubeClient } from "../../src/kube/http-client.ts";
import { kubeconfigConnection } from "../../src/kube/kube-config.ts";
import { NAMESPACES } from "../../src/kube/resources.ts";
import { directEffects } from "../../src/process/effects.ts";
import { removeCluster } from "../cluster/cluster.ts";
import { type Cluster, type ClusterSettings, loadCluster } from "../cluster/cluster-state.ts";
import { BUSYBOX_IMAGE } from "../cluster/images.ts";
import { clusterPlaces } from "../cluster/places.ts";
import { createOwnCluster } from "./own-cluster.ts";

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
  /** Absent: a foreign cluster. */
  readonly cluster?: Cluster;
  kubectl(...args: string[]): Promise<string>;
  close(): Promise<void>;
}

/** Its nodes can be seen into, and be switched off. */
export function clusterOf({ cluster }: Pick<ClusterUnderTest, "cluster">): Cluster {
  if (cluster === undefined) throw new Error("this is somebody else's cluster, and nobody sees its nodes from outside");
  return cluster;
}

/** "own": made for the suite. */
export type ClusterKind = "own" | "ours" | "foreign";

export function clusterKind(): ClusterKind {
  const kubeconfig = process.env["KUBECONFIG"];
  if (kubeconfig === undefined || kubeconfig === "") return "own";
  return existsSync(clusterPlaces(dirname(resolve(kubeconfig))).state) ? "ours" : "foreign";
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
  const kubectl = cluster?.programs.kubectl ?? "kubectl";
  return {
    client,
    kubeconfig,
    namespace,
    image: process.env["BUSYBOX_IMAGE"] ?? (cluster === undefined ? "busybox:stable" : BUSYBOX_IMAGE),
    cluster,
    kubectl: async (...args) =>
      (
        await execute(kubectl, ["--kubeconfig", kubeconfig, "--namespace", namespace, ...args], {
          maxBuffer: OUTPUT_LIMIT_BYTES,
        })
      ).stdout,
    close: async () => {
      if (cluster !== undefined && clusterKind() === "own") await removeCluster(cluster.places);
      else await client.delete("e2e/namespace", NAMESPACES, { name: namespace });
      await client.close();
    },
  };
}

async function testedCluster(settings: Partial<ClusterSettings>): Promise<Cluster | undefined> {
  switch (clusterKind()) {
    case "foreign":
      return undefined;
    case "ours":
      return loadCluster(dirname(resolve(process.env["KUBECONFIG"] ?? "")));
    case "own":
      return createOwnCluster(settings);
  }
}
