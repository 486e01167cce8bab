// What the DaemonSet gives the agent's Node.js, so that a stack's agent has the memory and the speed of a cluster's.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import type { Environment } from "./bundle-process.ts";
import type { Manifest } from "./kustomize.ts";

const MANIFEST = fileURLToPath(new URL("../../kustomize/base/agent/daemon-set.yaml", import.meta.url));

/** Throws where the manifest has none: a stack without would measure another agent. */
export function agentEnvironment(): Environment {
  const { spec } = parse(readFileSync(MANIFEST, "utf8")) as Manifest;
  const agent = spec?.template?.spec.containers.find(({ name }) => name === "agent");
  const options = agent?.env?.find(({ name }) => name === "NODE_OPTIONS")?.value;
  if (options === undefined) throw new Error(`${MANIFEST} gives the agent no NODE_OPTIONS`);
  return { NODE_OPTIONS: options };
}
