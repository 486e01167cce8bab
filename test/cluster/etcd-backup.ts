// A cluster's state put aside, and put back later, as its administrators do it with etcdutl: whatever happened in between, the API
// server no longer knows of; nodes and disks do.
import { copyFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Cluster } from "./cluster-state.ts";
import { startComponent, stopComponent } from "./components.ts";
import { ETCD_NAME, ETCD_PEER_URL } from "./control-plane.ts";
import { builtTools } from "./go-tools.ts";
import { nodeProgramName } from "./node.ts";
import { nodeReady } from "./readiness.ts";
import { runProgram } from "./run-program.ts";

/** Its database, copied while it is stopped for a moment. Resolves with the path of the copy once the API server is back. */
export async function backUpEtcd(cluster: Cluster): Promise<string> {
  const backup = join(cluster.places.directory, "etcd-backup.db");
  await stopComponent(cluster, "etcd");
  copyFileSync(join(cluster.places.etcd, "member/snap/db"), backup);
  await startComponent(cluster, "etcd");
  await restart(cluster, "kube-apiserver");
  return backup;
}

/** Revisions are made higher than any that was seen, so that whoever watches lists anew. Resolves when every node is Ready. */
export async function restoreEtcd(cluster: Cluster, backup: string): Promise<void> {
  const { places } = cluster;
  const restored = `${places.etcd}-restored`;
  const etcdutl = join(await builtTools("etcd", () => undefined), "etcdutl");
  const kubelets = cluster.nodes.map((node) => nodeProgramName(node, "kubelet"));
  for (const component of ["kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"])
    await stopComponent(cluster, component);
  rmSync(restored, { recursive: true, force: true });
  await runProgram(etcdutl, [
    ...["snapshot", "restore", backup, `--data-dir=${restored}`, "--skip-hash-check"],
    ...[`--name=${ETCD_NAME}`, `--initial-cluster=${ETCD_NAME}=${ETCD_PEER_URL}`],
    ...[`--initial-advertise-peer-urls=${ETCD_PEER_URL}`, "--bump-revision=1000000000", "--mark-compacted"],
  ]);
  rmSync(places.etcd, { recursive: true });
  renameSync(restored, places.etcd);
  for (const component of ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"])
    await startComponent(cluster, component);
  for (const kubelet of kubelets) await restart(cluster, kubelet);
  await Promise.all(cluster.nodes.map((node) => nodeReady(cluster, node)));
}

async function restart(cluster: Cluster, component: string): Promise<void> {
  await stopComponent(cluster, component);
  await startComponent(cluster, component);
}
