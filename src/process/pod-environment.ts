// Where this process runs, as the downward API tells the pod (POD_NAMESPACE, NODE_NAME). Pure; outside a pod there is neither,
// and the names of a standalone run hold.
import { hostname } from "node:os";

const STANDALONE_NAMESPACE = "tidemark-system";

/** The namespace of our own Leases, Secrets and Services. */
export function ownNamespace(environment: NodeJS.ProcessEnv): string {
  return environment["POD_NAMESPACE"] ?? STANDALONE_NAMESPACE;
}

export function ownNodeName(environment: NodeJS.ProcessEnv): string {
  return environment["NODE_NAME"] ?? hostname();
}
