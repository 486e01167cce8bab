// `make cluster`: a real Kubernetes on this machine, for tests. People read stderr; stdout is what was asked for.
import { resolve } from "node:path";
import { createCluster, removeCluster } from "./cluster.ts";
import { loadCluster } from "./cluster-state.ts";
import { startComponent, stopComponent } from "./components.ts";
import { type ClusterCommand, type ClusterConfig, readClusterConfig } from "./config.ts";
import { importImage, powerOff, powerOn } from "./node.ts";
import { clusterPlaces } from "./places.ts";
import { nodeReady } from "./readiness.ts";
import { clusterStatus, statusTable } from "./status.ts";

const startMs = performance.now();

function say(line: string): void {
  process.stderr.write(`cluster: ${((performance.now() - startMs) / 1000).toFixed(1).padStart(5)} s  ${line}\n`);
}

const COMMANDS: Readonly<Record<ClusterCommand, (config: ClusterConfig) => Promise<void>>> = {
  up: async ({ settings }) => {
    const there = await clusterStatus(settings.directory).catch(() => []);
    if (there.length > 0 && there.every(({ ready }) => ready)) {
      say(`a cluster is up in ${settings.directory}`);
      return;
    }
    const { places } = await createCluster(settings, say);
    say(`kubeconfig: ${places.kubeconfig}`);
  },
  down: async ({ settings }) => {
    await removeCluster(clusterPlaces(settings.directory));
    say(`nothing is left in ${settings.directory}`);
  },
  status: async ({ settings }) => {
    const statuses = await clusterStatus(settings.directory);
    process.stdout.write(`${statusTable(statuses)}\n`);
    if (!statuses.every(({ ready }) => ready)) process.exitCode = 1;
  },
  kubeconfig: async ({ settings }) => {
    process.stdout.write(`${loadCluster(settings.directory).places.kubeconfig}\n`);
  },
  "power-off": async (config) => {
    const { cluster, subject } = subjectOf(config, "a node");
    await powerOff(cluster, subject);
    say(`${subject} has no power; it counts as NotReady after ${cluster.settings.nodeGraceSeconds} s`);
  },
  "power-on": async (config) => {
    const { cluster, subject } = subjectOf(config, "a node");
    await powerOn(cluster, subject);
    await nodeReady(cluster, subject);
    say(`${subject} is Ready`);
  },
  stop: async (config) => {
    const { cluster, subject } = subjectOf(config, "a component");
    await stopComponent(cluster, subject);
    say(`${subject} is stopped`);
  },
  start: async (config) => {
    const { cluster, subject } = subjectOf(config, "a component");
    await startComponent(cluster, subject);
    say(`${subject} runs`);
  },
  load: async (config) => {
    const { cluster, subject } = subjectOf(config, "an OCI archive");
    for (const node of cluster.nodes) await importImage(cluster, node, resolve(subject));
    say(`${subject} is on ${cluster.nodes.join(", ")}`);
  },
};

function subjectOf({ command, subject, settings }: ClusterConfig, kind: string) {
  if (subject === undefined) throw new Error(`${command} needs ${kind}: make cluster ARGS="${command} NAME"`);
  return { cluster: loadCluster(settings.directory), subject };
}

async function main(): Promise<void> {
  const config = readClusterConfig(process.argv.slice(2));
  await COMMANDS[config.command](config);
}

main().catch((error: unknown) => {
  process.stderr.write(`cluster: ${error instanceof Error ? error.message : String(error)}\n`);
  if (error instanceof Error && error.cause instanceof Error) process.stderr.write(`cluster: ${error.cause.message}\n`);
  process.exitCode = 1;
});
