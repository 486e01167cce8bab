// How a process is told where its API server is: its flags, or the pod's own environment. Pure; kube-config.ts makes the connection.
import type { ConnectionSettings } from "./kube-config.ts";

/** For readFlags. */
export const CONNECTION_FLAGS = {
  server: { type: "string" },
  credentials: { type: "string" },
  kubeconfig: { type: "string" },
} as const;

export function readConnectionSettings(
  flags: Pick<ConnectionSettings, keyof typeof CONNECTION_FLAGS>,
  environment: NodeJS.ProcessEnv,
): ConnectionSettings {
  return {
    server: flags.server,
    credentials: flags.credentials,
    kubeconfig: flags.kubeconfig,
    serviceHost: environment["KUBERNETES_SERVICE_HOST"],
    servicePort: environment["KUBERNETES_SERVICE_PORT"],
  };
}
