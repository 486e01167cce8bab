// A node's life: switched on, its programs started; switched off, as by a cut of its power. What is on its disk stays in between.
import { existsSync } from "node:fs";
import { waitFor } from "../harness/wait-for.ts";
import { nodeAddress } from "./addresses.ts";
import { makeCgroup, removeCgroup } from "./cgroups.ts";
import type { Cluster } from "./cluster-state.ts";
import { clusterImages } from "./images.ts";
import { componentKubeconfig } from "./kubeconfig.ts";
import { detachLoopDevices } from "./loop-devices.ts";
import { joinNetwork } from "./network.ts";
import { enterNode, startNodeNamespaces } from "./node-namespaces.ts";
import { CONTAINERD_SOCKET, KUBELET_DIRECTORY, nodeSettingsFiles, writeNodeSettings } from "./node-settings.ts";
import { makeNodeDirectories, type NodePlaces, nodePlaces } from "./places.ts";
import {
  endRecorded,
  endRecordedChild,
  lastLines,
  onlyChild,
  recordedNames,
  runningProcess,
  startRecorded,
} from "./recorded-process.ts";
import { runProgram } from "./run-program.ts";

/** In the order in which they are started. */
export const NODE_PROGRAMS = ["containerd", "kubelet", "kube-proxy"] as const;
export type NodeProgram = (typeof NODE_PROGRAMS)[number];

/** The name that a node's program is recorded and logs under. */
export function nodeProgramName(node: string, program: NodeProgram): string {
  return `${node}-${program}`;
}

/** Unless it is on. kubelet starts when the cluster's images are there. */
export async function powerOn(cluster: Cluster, name: string): Promise<void> {
  const { places } = cluster;
  if (runningProcess(places, name) !== undefined) return;
  const [node, index] = [nodePlaces(places, name), indexOf(cluster, name)];
  await powerOff(cluster, name); // what a node that died by itself has left
  makeNodeDirectories(node);
  makeCgroup(node.cgroup);
  writeNodeSettings(cluster, node, index);
  const first = await startNodeNamespaces(places, node);
  await joinNetwork(places, index, first);
  await startNodeProgram(cluster, name, "containerd");
  await containerdReady(cluster, name, first);
  for (const archive of clusterImages(places)) await importImage(cluster, name, archive);
  for (const program of ["kubelet", "kube-proxy"] as const) await startNodeProgram(cluster, name, program);
}

/** Everything on it ends at once, without a chance to say so. Idempotent. */
export async function powerOff({ places }: Pick<Cluster, "places">, name: string): Promise<void> {
  await endRecordedChild(places, name, "SIGKILL");
  // What waited outside for its programs has nothing to wait for any more.
  const waiting = recordedNames(places).filter((record) => record.startsWith(`${name}-`));
  for (const record of waiting) await endRecorded(places, record, "SIGKILL");
  const node = nodePlaces(places, name);
  await removeCgroup(node.cgroup);
  // A kernel of its own would have forgotten them.
  if (existsSync(node.directory)) await detachLoopDevices(node.directory);
}

/** Unless it runs. */
export async function startNodeProgram(cluster: Cluster, name: string, program: NodeProgram): Promise<void> {
  const node = nodePlaces(cluster.places, name);
  const [command, ...enter] = await enterNode(cluster.places, node);
  const args = [...enter, ...commandLine(cluster, node, indexOf(cluster, name), program)];
  await startRecorded(cluster.places, { name: nodeProgramName(name, program), command, args });
}

/** As a node's init does it; pods go on. Idempotent. */
export async function stopNodeProgram({ places }: Cluster, name: string, program: NodeProgram): Promise<void> {
  await endRecordedChild(places, nodeProgramName(name, program), "SIGTERM");
}

/** What is recorded only waits for the program, which has other pids inside and outside of the node: this is the one outside. */
export async function nodeProgramPid(
  { places }: Cluster,
  name: string,
  program: NodeProgram,
): Promise<number | undefined> {
  const waiting = runningProcess(places, nodeProgramName(name, program));
  return waiting === undefined ? undefined : onlyChild(waiting);
}

function commandLine({ places, programs }: Cluster, node: NodePlaces, index: number, program: NodeProgram): string[] {
  const files = nodeSettingsFiles(node);
  switch (program) {
    case "containerd":
      return ["containerd", `--config=${files.containerd}`];
    case "kubelet":
      return [
        programs.kubelet,
        `--config=${files.kubelet}`,
        `--kubeconfig=${componentKubeconfig(places, node.name)}`,
        `--root-dir=${KUBELET_DIRECTORY}`,
        `--hostname-override=${node.name}`,
        `--node-ip=${nodeAddress(index)}`,
      ];
    case "kube-proxy":
      return [programs["kube-proxy"], `--config=${files.kubeProxy}`];
  }
}

async function containerdReady({ places }: Cluster, name: string, first: number): Promise<void> {
  const program = nodeProgramName(name, "containerd");
  const [command, ...enter] = await enterNode(places, nodePlaces(places, name));
  await waitFor(
    `${program} to answer`,
    async () => {
      if (!existsSync(`/proc/${first}/root${CONTAINERD_SOCKET}`)) return undefined;
      return runProgram(command, [...enter, "ctr", "version"]);
    },
    { otherwise: () => lastLines(places, program) },
  );
}

/** From an OCI archive, under the names that the archive gives it. */
export async function importImage({ places }: Cluster, name: string, archive: string): Promise<void> {
  const [command, ...enter] = await enterNode(places, nodePlaces(places, name));
  await runProgram(command, [...enter, "ctr", "--namespace=k8s.io", "images", "import", archive]);
}

function indexOf({ nodes }: Cluster, name: string): number {
  const index = nodes.indexOf(name);
  if (index < 0) throw new Error(`there is no node "${name}"; the cluster has ${nodes.join(", ")}`);
  return index;
}
