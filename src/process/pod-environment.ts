// Where this process runs, as the downward API tells the pod (POD_NAMESPACE, NODE_NAME, POD_SERVICE_ACCOUNT). Pure; outside a pod there is
// none, and the names of a standalone run hold.
import { hostname } from "node:os";

const STANDALONE_NAMESPACE = "tidemark-system";

/** The namespace of our own Leases, Secrets and Services. */
export function ownNamespace(environment: NodeJS.ProcessEnv): string {
  return environment["POD_NAMESPACE"] ?? STANDALONE_NAMESPACE;
}

export function ownNodeName(environment: NodeJS.ProcessEnv): string {
  return environment["NODE_NAME"] ?? hostname();
}

/** The pod's user, as the API server names it in requests; undefined outside a pod. */
export function ownUserName(environment: NodeJS.ProcessEnv): string | undefined {
  const { POD_NAMESPACE: namespace, POD_SERVICE_ACCOUNT: name } = environment;
  return namespace && name ? `system:serviceaccount:${namespace}:${name}` : undefined;
}
