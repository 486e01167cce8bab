// One component of a running cluster, stopped and started by its name in the status table, as tests of faults need it.
import { type Cluster } from "./cluster-state.ts";
import { CONTROL_PLANE, startControlPlane } from "./control-plane.ts";
import { NODE_PROGRAMS, nodeProgramName, startNodeProgram, stopNodeProgram } from "./node.ts";
import { controlPlaneReady } from "./readiness.ts";
import { endRecorded } from "./recorded-process.ts";

/** An API server with watches open takes longer than anybody would wait. */
const GRACE_MS = 3_000;

interface Component {
  stop(): Promise<void>;
  /** Resolves when it is ready, where that can be asked. */
  start(): Promise<void>;
}

/** By SIGTERM, and SIGKILL when that takes long. Idempotent. Throws when there is no such component. */
export async function stopComponent(cluster: Cluster, name: string): Promise<void> {
  await componentOf(cluster, name).stop();
}

/** Unless it runs. Throws when there is no such component. */
export async function startComponent(cluster: Cluster, name: string): Promise<void> {
  await componentOf(cluster, name).start();
}

function componentOf(cluster: Cluster, name: string): Component {
  const components = componentsOf(cluster);
  const component = components[name];
  if (component === undefined)
    throw new Error(`no component "${name}"; there are ${Object.keys(components).join(", ")}`);
  return component;
}

function componentsOf(cluster: Cluster): Readonly<Record<string, Component>> {
  const controlPlane = CONTROL_PLANE.map((name) => [
    name,
    {
      stop: () => endRecorded(cluster.places, name, "SIGTERM", GRACE_MS),
      start: async () => {
        await startControlPlane(cluster, name);
        await controlPlaneReady(cluster, name);
      },
    },
  ]);
  const nodes = cluster.nodes.flatMap((node) =>
    NODE_PROGRAMS.map((program) => [
      nodeProgramName(node, program),
      {
        stop: () => stopNodeProgram(cluster, node, program),
        start: () => startNodeProgram(cluster, node, program),
      },
    ]),
  );
  return Object.fromEntries([...controlPlane, ...nodes]) as Record<string, Component>;
}
