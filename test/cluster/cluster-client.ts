// The administrator's connection to a cluster: the project's own client, with a certificate that may do everything.
import { readFileSync } from "node:fs";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { authorityFile, certificateFiles } from "./certificates.ts";
import type { Cluster } from "./cluster-state.ts";

export function createClusterClient({ places, ports }: Cluster): ConnectedKubeClient {
  const { cert, key } = certificateFiles(places, "admin");
  const [caPem, certPem, keyPem] = [authorityFile(places), cert, key].map((path) => readFileSync(path, "utf8"));
  return createKubeClient({
    connection: {
      server: `https://127.0.0.1:${ports["kube-apiserver"]}`,
      credentials: async () => ({ headers: {}, tls: { ca: caPem, cert: certPem, key: keyPem } }),
    },
    effects: directEffects,
    userAgent: "tidemark-test-cluster",
  });
}
