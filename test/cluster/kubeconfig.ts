// Kubeconfig files: who a component is and where it finds the API server. They name certificate files, and hold no secrets.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { API_SERVER_URL } from "./addresses.ts";
import { authorityFile, certificateFiles } from "./certificates.ts";
import type { ClusterPlaces } from "./places.ts";

const NAME = "tidemark-test";

function writeKubeconfig(places: ClusterPlaces, path: string, certificate: string, server: string): void {
  const { cert, key } = certificateFiles(places, certificate);
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: NAME, cluster: { server, "certificate-authority": authorityFile(places) } }],
    users: [{ name: certificate, user: { "client-certificate": cert, "client-key": key } }],
    contexts: [{ name: NAME, context: { cluster: NAME, user: certificate } }],
    "current-context": NAME,
  };
  writeFileSync(path, stringify(config), { mode: 0o600 });
}

/** One for each component that talks to the API server from inside the cluster's network. */
export function writeComponentKubeconfigs(places: ClusterPlaces, nodes: readonly string[]): void {
  for (const name of ["kube-controller-manager", "kube-scheduler", "kube-proxy", ...nodes])
    writeKubeconfig(places, componentKubeconfig(places, name), name, API_SERVER_URL);
}

/** `port` is the forwarded one on this machine's loopback. */
export function writeAdminKubeconfig(places: ClusterPlaces, port: number): void {
  writeKubeconfig(places, places.kubeconfig, "admin", `https://127.0.0.1:${port}`);
}

export function componentKubeconfig(places: ClusterPlaces, name: string): string {
  return join(places.certificates, `${name}.kubeconfig`);
}
