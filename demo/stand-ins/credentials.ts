// What opens the embedded control plane, recreated at each start: a token, and a CA with a certificate for loopback. They go into one
// directory that only its owner reads: ca.crt and token as a pod's service account has them, and config, a kubeconfig with both, for
// kubectl.
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import type { ClusterConnection } from "../../src/platform/kube/client/kube-config.ts";
import { CERTIFICATE_TIMES } from "../../src/platform/process/certificates/decide-certificates.ts";
import { issueLeaf, makeAuthority } from "../../src/platform/process/certificates/issue-certificate.ts";
import type { ControlPlaneAccess } from "../control-plane/http/access.ts";

export interface Credentials extends ControlPlaneAccess {
  readonly authorityPem: string;
}

const TOKEN_BYTES = 32;
const PROFILE = { commonName: "standalone.tidemark.dev", usage: "server", addresses: ["127.0.0.1"] } as const;
const NAME = "tidemark";
/** The token before the kubeconfig: a config alone is another control plane's. */
const FILES = ["ca.crt", "token", "config"] as const;

export async function makeCredentials(nowMs: number): Promise<Credentials> {
  const authority = await makeAuthority("tidemark-standalone", nowMs, CERTIFICATE_TIMES);
  const leaf = await issueLeaf(authority, PROFILE, nowMs, CERTIFICATE_TIMES);
  return { token: randomBytes(TOKEN_BYTES).toString("base64url"), ...leaf, authorityPem: authority.certificatePem };
}

/** For a client in this process. */
export function connectionWith(server: string, { token, authorityPem }: Credentials): ClusterConnection {
  const credentials = { headers: { authorization: `Bearer ${token}` }, tls: { ca: authorityPem } };
  return { server, credentials: async () => credentials };
}

/** Replaces those of an earlier start. Throws with a sentence for the user where the directory is another's. */
export function writeCredentials(directory: string, server: string, credentials: Credentials): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  refuseOthers(directory);
  chmodSync(directory, 0o700); // it may have been there
  const { token, authorityPem } = credentials;
  const texts = { "ca.crt": authorityPem, token, config: kubeconfigOf(server, credentials) };
  for (const name of FILES) {
    const path = join(directory, name);
    rmSync(path, { force: true }); // a process that has the former one open, or linked it here, gets nothing
    writeFileSync(path, texts[name], { mode: 0o600, flag: "wx" });
  }
}

/** It would be closed to all but us, and what is called config there replaced: /tmp, or ~/.kube with the user's own kubeconfig. */
function refuseOthers(directory: string): void {
  const present = readdirSync(directory);
  const foreign = present.find((name) => !FILES.some((file) => file === name));
  const found = foreign ?? (present.includes("token") ? undefined : present.find((name) => name === "config"));
  if (found === undefined) return;
  throw new Error(
    `--write-credentials ${directory} has ${found}, which is not of an earlier start; name a directory of its own`,
  );
}

function kubeconfigOf(server: string, { token, authorityPem }: Credentials): string {
  const cluster = { server, "certificate-authority-data": Buffer.from(authorityPem).toString("base64") };
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: NAME, cluster }],
    users: [{ name: NAME, user: { token } }],
    contexts: [{ name: NAME, context: { cluster: NAME, user: NAME, namespace: "default" } }],
    "current-context": NAME,
  });
}
