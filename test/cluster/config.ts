// The command line of `make cluster`. The only file of the cluster's that reads flags.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { durationFlag } from "../../src/platform/process/flags.ts";
import { NODES_LIMIT } from "./addresses.ts";
import type { ClusterSettings } from "./cluster-state.ts";

export const COMMANDS = [
  "up",
  "down",
  "status",
  "kubeconfig",
  "power-off",
  "power-on",
  "stop",
  "start",
  "load",
] as const;
export type ClusterCommand = (typeof COMMANDS)[number];

export interface ClusterConfig {
  readonly command: ClusterCommand;
  /** A node for power-off and power-on, a component for stop and start, an archive for load. */
  readonly subject: string | undefined;
  readonly settings: ClusterSettings;
}

export const DEFAULT_SETTINGS: ClusterSettings = {
  directory: join(process.env["TMPDIR"] ?? "/var/tmp", "tidemark-cluster"),
  nodes: 2,
  nodeGraceSeconds: 16,
  syncFrequency: undefined,
};

/** kubelet renews its lease every 2 s; a loaded machine needs several times that. */
const GRACE_MIN_MS = 10_000;

/** Throws with a sentence for the user on anything it cannot read. */
export function readClusterConfig(args: readonly string[]): ClusterConfig {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      dir: { type: "string", default: DEFAULT_SETTINGS.directory },
      nodes: { type: "string", default: `${DEFAULT_SETTINGS.nodes}` },
      "node-grace": { type: "string", default: `${DEFAULT_SETTINGS.nodeGraceSeconds}s` },
      "sync-frequency": { type: "string" },
      yes: { type: "boolean", default: false }, // read by scripts/setup.sh; accepted here, since both get the same ARGS
    },
  });
  const [command = "status", subject, ...more] = positionals;
  if (more.length > 0)
    throw new Error(`one command at a time: ${positionals.join(" ")} are ${positionals.length} words`);
  const known = COMMANDS.find((candidate) => candidate === command);
  if (known === undefined) throw new Error(`no command "${command}"; there are ${COMMANDS.join(", ")}`);
  return {
    command: known,
    subject,
    settings: {
      directory: resolve(values.dir),
      nodes: nodesFlag(values.nodes),
      nodeGraceSeconds: durationFlag("node-grace", values["node-grace"], GRACE_MIN_MS) / 1000,
      syncFrequency: values["sync-frequency"],
    },
  };
}

function nodesFlag(text: string): number {
  const nodes = Number(text);
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > NODES_LIMIT)
    throw new Error(`--nodes ${text} is no number between 1 and ${NODES_LIMIT}`);
  return nodes;
}
