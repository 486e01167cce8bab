// A whole cluster, made and removed. Making one first removes what lies in its directory, in whatever state it was left; removing
// ends every recorded process, then undoes what outlives processes.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { mountsUnder } from "../../demo/show/run/mount-table.ts";
import { makeCertificates } from "./certificates.ts";
import { removeCgroup } from "./cgroups.ts";
import { withClusterLock } from "./cluster-lock.ts";
import { findClusterPrograms } from "./cluster-programs.ts";
import { type Cluster, type ClusterSettings, nodeNames, saveCluster } from "./cluster-state.ts";
import { CONTROL_PLANE, startControlPlane } from "./control-plane.ts";
import { startForwarder } from "./forwarded-ports.ts";
import { writeClusterImages } from "./images.ts";
import { writeAdminKubeconfig, writeComponentKubeconfigs } from "./kubeconfig.ts";
import { detachLoopDevices } from "./loop-devices.ts";
import { startNetwork } from "./network.ts";
import { powerOff, powerOn } from "./node.ts";
import { type ClusterPlaces, clusterPlaces, makeClusterDirectories } from "./places.ts";
import { controlPlaneReady, defaultServiceAccountExists, nodeReady } from "./readiness.ts";
import { endRecorded, recordedNames } from "./recorded-process.ts";
import { runProgram } from "./run-program.ts";

/** Hears what has been reached. */
export type ClusterProgress = (line: string) => void;

/** Resolves when every node is Ready and pods can be made. What it has started when it rejects, `removeCluster` removes. */
export async function createCluster(settings: ClusterSettings, progress: ClusterProgress): Promise<Cluster> {
  const programs = await findClusterPrograms(progress);
  const places = clusterPlaces(settings.directory);
  return withClusterLock(places, async () => {
    await removeAll(places);
    const cluster = await prepareCluster(places, settings, programs);
    progress("network, certificates and images are made");
    await startCluster(cluster, progress);
    return cluster;
  });
}

async function prepareCluster(
  places: ClusterPlaces,
  settings: ClusterSettings,
  programs: Cluster["programs"],
): Promise<Cluster> {
  const nodes = nodeNames(settings.nodes);
  makeClusterDirectories(places);
  await startNetwork(places);
  const [ports] = await Promise.all([
    startForwarder(places),
    writeClusterImages(places),
    makeCertificates(places, nodes),
  ]);
  writeComponentKubeconfigs(places, nodes);
  writeAdminKubeconfig(places, ports["kube-apiserver"]);
  const cluster: Cluster = { places, settings, nodes, ports, programs };
  saveCluster(cluster);
  return cluster;
}

async function startCluster(cluster: Cluster, progress: ClusterProgress): Promise<void> {
  const { nodes } = cluster;
  for (const component of ["etcd", "kube-apiserver"] as const) {
    await startControlPlane(cluster, component);
    await controlPlaneReady(cluster, component);
    progress(`${component} is ready`);
  }
  for (const component of CONTROL_PLANE) await startControlPlane(cluster, component);
  await Promise.all(nodes.map((node) => powerOn(cluster, node)));
  progress(`${nodes.join(" and ")} have power`);
  await Promise.all(CONTROL_PLANE.map((component) => controlPlaneReady(cluster, component)));
  await Promise.all(nodes.map((node) => nodeReady(cluster, node)));
  await defaultServiceAccountExists(cluster);
  progress(`${nodes.join(" and ")} are Ready`);
}

/** Idempotent. Rejects with what it could not end or undo, and when the directory is somebody else's. */
export async function removeCluster(places: ClusterPlaces): Promise<void> {
  await withClusterLock(places, () => removeAll(places));
}

async function removeAll(places: ClusterPlaces): Promise<void> {
  refuseStranger(places);
  const names = recordedNames(places);
  for (const node of names.filter((name) => /^node\d+$/.test(name))) await powerOff({ places }, node);
  await Promise.all(recordedNames(places).map((name) => endRecorded(places, name, "SIGKILL")));
  await removeCgroup(places.cgroup);
  for (const path of mountsUnder(places.directory)) await runProgram("umount", ["--lazy", path]);
  if (existsSync(places.directory)) await detachLoopDevices(places.directory);
  rmSync(places.directory, { recursive: true, force: true });
}

/** The directory is about to be deleted with all that is in it. */
function refuseStranger({ directory, processes }: ClusterPlaces): void {
  if (!existsSync(directory) || existsSync(processes) || readdirSync(directory).length === 0) return;
  throw new Error(`${directory} holds something else than a test cluster; name another directory (--dir) or empty it`);
}
