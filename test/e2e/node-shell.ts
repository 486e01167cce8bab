// A command on a node of a cluster of ours, and in a container of it by containerd alone: the API server has no part in it.
import { randomUUID } from "node:crypto";
import type { Cluster } from "../cluster/cluster-state.ts";
import { enterNode } from "../cluster/node-namespaces.ts";
import { nodePlaces } from "../cluster/places.ts";
import { runProgram } from "../cluster/run-program.ts";
import type { Pod } from "./pod.ts";

/** Of what a test has done there: more than a disk that others use as well needs for a gigabyte. */
const TIME_LIMIT_MS = 300_000;

const END = "-- end of output --";
const READS = 20;

export async function onNode({ places }: Cluster, node: string, ...command: readonly string[]): Promise<string> {
  const [enter, ...args] = await enterNode(places, nodePlaces(places, node));
  return runProgram(enter, [...args, ...command], { timeLimitMs: TIME_LIMIT_MS });
}

/**
 * In the pod's only container. What the script prints goes to a file there, which is read until it comes whole: of a program
 * that ends at once, `ctr tasks exec` may lose what it printed, and still says that all went well.
 */
export async function inContainer(cluster: Cluster, pod: Pod, script: string): Promise<string> {
  const file = `/dev/shm/${randomUUID()}`;
  await execInContainer(cluster, pod, `{ ${script}\n} > ${file}`);
  for (let reads = 0; reads < READS; reads += 1) {
    const read = await execInContainer(cluster, pod, `cat ${file}; echo ${END}`);
    if (read.trimEnd().endsWith(END)) {
      return read.slice(0, read.lastIndexOf(END));
    }
  }
  throw new Error(`the end of what "${script}" printed was not read in ${READS} attempts`);
}

async function execInContainer(cluster: Cluster, { spec, status }: Pod, script: string): Promise<string> {
  const id = status?.containerStatuses?.[0]?.containerID?.replace("containerd://", "") ?? "";
  const exec = ["ctr", "--namespace=k8s.io", "tasks", "exec", "--exec-id", randomUUID().slice(0, 8), id];
  return onNode(cluster, spec.nodeName ?? "", ...exec, "sh", "-ec", script);
}
