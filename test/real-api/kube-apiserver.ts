// A real API server for one test: kube-apiserver on an etcd of its own, so that it is empty at first. Of the controllers run those two
// whose work the embedded control plane does, too: what an owner or a namespace takes along.
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../demo/show/run/free-port.ts";
import { findClusterPrograms } from "../cluster/cluster-programs.ts";
import type { ApiUnderTest } from "../harness/api-under-test.ts";
import { waitFor } from "../harness/wait-for.ts";
import { type Credentials, makeCredentials } from "./credentials.ts";
import { servePlainHttp } from "./plain-http.ts";
import { type Program, startProgram } from "./program.ts";

/** In memory: nothing of it is read again. */
const BASE = "/dev/shm";
const PREFIX = "tidemark-real-api-";
/** kube-apiserver makes them a moment after it is ready; the embedded control plane starts with them. */
const NAMESPACES = ["default", "kube-system"];
/** Of the controllers' names in kube-controller-manager. */
const CONTROLLERS = ["garbage-collector-controller", "namespace-controller"];
/**
 * What adds to objects what only a controller or a kubelet takes away again: a pod's service account, the finalizers of claims and volumes
 * that are in use, the taints of a node that is not ready.
 */
const WITHOUT_ADMISSION = ["ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition"];
/** Of one look; it ends a request that nobody answers any more, and the next look follows. */
const ATTEMPT_LIMIT_MS = 3_000;
/** Reserved for documentation: kube-apiserver wants an address that is not loopback, and nobody here asks it for its own. */
const ADVERTISED_ADDRESS = "192.0.2.1";

/** AlwaysAllow: whoever asks may do everything. RBAC: as in a cluster; who connects is an administrator, and may speak as somebody else. */
export type Authorization = "AlwaysAllow" | "RBAC";

/** On this port of loopback, by plain HTTP; 0: any free one. */
export async function startKubeApiServer(
  port: number,
  authorization: Authorization = "AlwaysAllow",
): Promise<ApiUnderTest> {
  removeStale();
  const directory = mkdtempSync(join(BASE, `${PREFIX}${process.pid}-`));
  const started: { stop(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const { stop } of started.splice(0).reverse()) await stop();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    const binaries = await findClusterPrograms((line) => console.warn(line));
    const run = (name: string, binary: string, flags: Readonly<Record<string, string>>): Program => {
      const program = startProgram(directory, name, binary, flags);
      started.push(program);
      return program;
    };
    const [etcdPort, peerPort, securePort] = [await freePort(), await freePort(), await freePort()];
    const credentials = await makeCredentials(directory);
    run("etcd", binaries.etcd, etcdFlags(directory, urlOf(etcdPort), urlOf(peerPort)));
    const apiFlags = {
      ...apiServerFlags(credentials, urlOf(etcdPort), securePort),
      "authorization-mode": authorization,
    };
    const apiServer = run("kube-apiserver", binaries["kube-apiserver"], apiFlags);
    const front = await servePlainHttp(port, securePort, credentials);
    started.push(front);
    await untilReady(urlOf(front.port), apiServer);
    run("kube-controller-manager", binaries["kube-controller-manager"], controllerFlags(urlOf(front.port)));
    return { url: urlOf(front.port), port: front.port, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What tests left that were killed. Their programs ended with them. */
function removeStale(): void {
  for (const name of readdirSync(BASE)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join(BASE, name), { recursive: true, force: true });
  }
}

function urlOf(port: number): string {
  return `http://127.0.0.1:${port}`;
}

function etcdFlags(directory: string, url: string, peerUrl: string): Record<string, string> {
  return {
    name: "tidemark",
    "data-dir": join(directory, "etcd"),
    "listen-client-urls": url,
    "advertise-client-urls": url,
    "listen-peer-urls": peerUrl,
    "initial-advertise-peer-urls": peerUrl,
    "initial-cluster": `tidemark=${peerUrl}`,
    "unsafe-no-fsync": "true",
    "log-level": "warn",
  };
}

function apiServerFlags(credentials: Credentials, etcdUrl: string, port: number): Record<string, string> {
  return {
    "etcd-servers": etcdUrl,
    "bind-address": "127.0.0.1",
    "advertise-address": ADVERTISED_ADDRESS,
    "endpoint-reconciler-type": "none",
    "secure-port": `${port}`,
    "tls-cert-file": credentials.certFile,
    "tls-private-key-file": credentials.keyFile,
    "client-ca-file": credentials.certFile,
    "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
    "service-account-key-file": credentials.publicKeyFile,
    "service-account-signing-key-file": credentials.keyFile,
    "disable-admission-plugins": WITHOUT_ADMISSION.join(","),
    "service-cluster-ip-range": "10.96.0.0/16",
    "allow-privileged": "true",
  };
}

function controllerFlags(server: string): Record<string, string> {
  return {
    master: server,
    controllers: CONTROLLERS.join(","),
    "leader-elect": "false",
    "secure-port": "0",
  };
}

async function untilReady(url: string, apiServer: Program): Promise<void> {
  const paths = ["/readyz", ...NAMESPACES.map((name) => `/api/v1/namespaces/${name}`)];
  await waitFor(
    "kube-apiserver to be ready",
    async () => {
      if (!apiServer.isRunning()) return false;
      for (const path of paths) {
        const answer = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(ATTEMPT_LIMIT_MS) });
        await answer.text();
        if (!answer.ok) return undefined;
      }
      return true;
    },
    { otherwise: () => apiServer.lastLines() },
  );
  if (!apiServer.isRunning()) throw new Error(`kube-apiserver ended:\n${apiServer.lastLines()}`);
}
