// The control plane's programs and their flags. All run in the cluster's network; none is replicated, so none elects a leader.
import { join } from "node:path";
import { API_SERVER_PORT, CONTROL_PLANE_ADDRESS, SERVICE_ADDRESSES } from "./addresses.ts";
import { auditFlags } from "./audit.ts";
import { authorityFile, certificateFiles } from "./certificates.ts";
import type { Cluster } from "./cluster-state.ts";
import { componentKubeconfig } from "./kubeconfig.ts";
import { enterNetwork } from "./network.ts";
import { startRecorded } from "./recorded-process.ts";

/** In the order in which they are started. */
export const CONTROL_PLANE = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] as const;
export type ControlPlaneComponent = (typeof CONTROL_PLANE)[number];

export const ETCD_NAME = "default";
const ETCD_URL = "http://127.0.0.1:2379";
export const ETCD_PEER_URL = "http://127.0.0.1:2380";
const ETCD_HEALTH_URL = "http://127.0.0.1:2381";

const FLAGS: Readonly<Record<ControlPlaneComponent, (cluster: Cluster) => Readonly<Record<string, string>>>> = {
  etcd: ({ places }) => ({
    name: ETCD_NAME,
    "data-dir": places.etcd,
    "listen-client-urls": ETCD_URL,
    "advertise-client-urls": ETCD_URL,
    "listen-peer-urls": ETCD_PEER_URL,
    "initial-advertise-peer-urls": ETCD_PEER_URL,
    "initial-cluster": `${ETCD_NAME}=${ETCD_PEER_URL}`,
    "listen-metrics-urls": ETCD_HEALTH_URL,
    // Its data outlives its process; it need not outlive this machine's power.
    "unsafe-no-fsync": "true",
    "log-level": "warn",
  }),
  "kube-apiserver": apiServerFlags,
  "kube-controller-manager": ({ places, settings }) => ({
    kubeconfig: componentKubeconfig(places, "kube-controller-manager"),
    "bind-address": "127.0.0.1",
    "leader-elect": "false",
    "use-service-account-credentials": "true",
    "root-ca-file": authorityFile(places),
    "service-account-private-key-file": join(places.certificates, "service-accounts.key"),
    "node-monitor-grace-period": `${settings.nodeGraceSeconds}s`,
    "node-monitor-period": "1s",
    ...(settings.controllerQps === undefined
      ? {}
      : { "kube-api-qps": `${settings.controllerQps}`, "kube-api-burst": `${2 * settings.controllerQps}` }),
  }),
  "kube-scheduler": ({ places }) => ({
    kubeconfig: componentKubeconfig(places, "kube-scheduler"),
    "bind-address": "127.0.0.1",
    "leader-elect": "false",
  }),
};

function apiServerFlags({ places }: Cluster): Record<string, string> {
  const serving = certificateFiles(places, "kube-apiserver");
  const kubeletClient = certificateFiles(places, "kubelet-client");
  return {
    "etcd-servers": ETCD_URL,
    "bind-address": CONTROL_PLANE_ADDRESS,
    "advertise-address": CONTROL_PLANE_ADDRESS,
    "secure-port": `${API_SERVER_PORT}`,
    "tls-cert-file": serving.cert,
    "tls-private-key-file": serving.key,
    "client-ca-file": authorityFile(places),
    "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
    "service-account-key-file": join(places.certificates, "service-accounts.pub"),
    "service-account-signing-key-file": join(places.certificates, "service-accounts.key"),
    "authorization-mode": "Node,RBAC",
    "enable-admission-plugins": "NodeRestriction",
    "service-cluster-ip-range": SERVICE_ADDRESSES,
    "allow-privileged": "true",
    "kubelet-client-certificate": kubeletClient.cert,
    "kubelet-client-key": kubeletClient.key,
    "kubelet-certificate-authority": authorityFile(places),
    "kubelet-preferred-address-types": "InternalIP",
    // Webhooks' Services are resolved to pods, which it reaches; there is no kube-proxy beside it.
    "enable-aggregator-routing": "true",
    ...auditFlags(places),
  };
}

/** Unless it runs. Its readiness is another question: see readiness.ts. */
export async function startControlPlane(cluster: Cluster, component: ControlPlaneComponent): Promise<void> {
  const [command, ...enter] = enterNetwork(cluster.places);
  const flags = Object.entries(FLAGS[component](cluster)).map(([name, value]) => `--${name}=${value}`);
  await startRecorded(cluster.places, {
    name: component,
    command,
    args: [...enter, cluster.programs[component], ...flags],
  });
}
