// What of a cluster runs and works, as a table for people.
import { type Cluster, loadCluster } from "./cluster-state.ts";
import { CONTROL_PLANE } from "./control-plane.ts";
import { FORWARDER } from "./forwarded-ports.ts";
import { NETWORK } from "./network.ts";
import { NODE_PROGRAMS, nodeProgramName, nodeProgramPid } from "./node.ts";
import { isControlPlaneReady, readyNodes } from "./readiness.ts";
import { runningProcess } from "./recorded-process.ts";

export interface ComponentStatus {
  readonly component: string;
  /** On this machine; undefined when it does not run. */
  readonly pid: number | undefined;
  readonly ready: boolean;
}

/** Throws when there is no cluster. */
export async function clusterStatus(directory: string): Promise<ComponentStatus[]> {
  const cluster = loadCluster(directory);
  const running = (component: string, ready = true): ComponentStatus => {
    const pid = runningProcess(cluster.places, component)?.pid;
    return { component, pid, ready: ready && pid !== undefined };
  };
  const controlPlane = CONTROL_PLANE.map(async (name) => running(name, await isControlPlaneReady(cluster, name)));
  const ready = await readyNodes(cluster).catch((): string[] => []);
  const nodes = cluster.nodes.map(async (node) => [
    running(node, ready.includes(node)),
    ...(await Promise.all(NODE_PROGRAMS.map((program) => programStatus(cluster, node, program)))),
  ]);
  return [
    running(NETWORK),
    running(FORWARDER),
    ...(await Promise.all(controlPlane)),
    ...(await Promise.all(nodes)).flat(),
  ];
}

async function programStatus(
  cluster: Cluster,
  node: string,
  program: (typeof NODE_PROGRAMS)[number],
): Promise<ComponentStatus> {
  const pid = await nodeProgramPid(cluster, node, program);
  return { component: nodeProgramName(node, program), pid, ready: pid !== undefined };
}

export function statusTable(statuses: readonly ComponentStatus[]): string {
  const rows = statuses.map(({ component, pid, ready }) => [component, `${pid ?? "-"}`, ready ? "yes" : "no"]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)) + 2);
  return [["COMPONENT", "PID", "READY"], ...rows]
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(""))
    .join("\n");
}
