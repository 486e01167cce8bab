// The configuration files of what runs on a node: containerd, CNI, kubelet, kube-proxy. Paths such as /var/lib and /run are the
// node's own: see node-namespaces.ts.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { nodeAddress, nodePodAddresses, POD_ADDRESSES } from "./addresses.ts";
import { authorityFile, certificateFiles } from "./certificates.ts";
import type { Cluster } from "./cluster-state.ts";
import { PAUSE_IMAGE } from "./images.ts";
import { componentKubeconfig } from "./kubeconfig.ts";
import type { NodePlaces } from "./places.ts";

export const CONTAINERD_SOCKET = "/run/containerd/containerd.sock";
export const KUBELET_DIRECTORY = "/var/lib/kubelet";
/** Where a node has one of LVM; the devices of another node's group of this name are not in it. */
export const VOLUME_GROUP = "tidemark";
export const VOLUME_GROUP_DEVICES = `/dev/${VOLUME_GROUP}`;
export const CNI_PROGRAMS = "/usr/lib/cni";
const KUBELET_LEASE_SECONDS = 8;
const IMAGE_SPACE_PERCENT = 99;

export interface NodeSettingsFiles {
  readonly containerd: string;
  readonly kubelet: string;
  readonly kubeProxy: string;
}

export function nodeSettingsFiles({ settings }: NodePlaces): NodeSettingsFiles {
  return {
    containerd: join(settings, "containerd.toml"),
    kubelet: join(settings, "kubelet.yaml"),
    kubeProxy: join(settings, "kube-proxy.yaml"),
  };
}

export function writeNodeSettings(cluster: Cluster, node: NodePlaces, index: number): void {
  const files = nodeSettingsFiles(node);
  writeFileSync(files.containerd, containerdSettings(node));
  writeFileSync(join(node.settings, "10-pods.conflist"), JSON.stringify(podNetwork(index)));
  writeFileSync(files.kubelet, stringify(kubeletSettings(cluster, node, index)));
  writeFileSync(files.kubeProxy, stringify(kubeProxySettings(cluster, node, index)));
}

function containerdSettings(node: NodePlaces): string {
  return `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "${CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE_IMAGE}"
  disable_apparmor = true
  # Root may lack CAP_SYS_RESOURCE, without which a score is never lowered.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${CNI_PROGRAMS}"
    conf_dir = "${node.settings}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
`;
}

/** Each pod on a link of its own: between two pods of a node, too, packets pass kube-proxy's rules. */
function podNetwork(index: number): object {
  const ipam = {
    type: "host-local",
    dataDir: "/run/cni",
    ranges: [[{ subnet: nodePodAddresses(index) }]],
    routes: [{ dst: "0.0.0.0/0" }],
  };
  return { cniVersion: "0.4.0", name: "pods", plugins: [{ type: "ptp", ipMasq: false, ipam }] };
}

function kubeletSettings({ places, settings }: Cluster, node: NodePlaces, index: number): object {
  const serving = certificateFiles(places, `${node.name}-serving`);
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: nodeAddress(index),
    healthzBindAddress: "127.0.0.1",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: authorityFile(places) },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: serving.cert,
    tlsPrivateKeyFile: serving.key,
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${node.cgroup}`,
    failCgroupV1: false,
    failSwapOn: false,
    enforceNodeAllocatable: ["pods"],
    makeIPTablesUtilChains: false,
    oomScoreAdj: 0,
    volumePluginDir: join(KUBELET_DIRECTORY, "volumeplugins"),
    resolvConf: "",
    serializeImagePulls: false,
    nodeLeaseDurationSeconds: KUBELET_LEASE_SECONDS,
    nodeStatusUpdateFrequency: "4s",
    // The disk is this machine's, and nobody pulls an image anew that was collected here.
    imageGCHighThresholdPercent: IMAGE_SPACE_PERCENT + 1,
    imageGCLowThresholdPercent: IMAGE_SPACE_PERCENT,
    evictionHard: {
      "memory.available": "50Mi",
      "nodefs.available": "1%",
      "nodefs.inodesFree": "1%",
      "imagefs.available": "1%",
    },
    ...(settings.syncFrequency === undefined ? {} : { syncFrequency: settings.syncFrequency }),
  };
}

function kubeProxySettings({ places }: Cluster, node: NodePlaces, index: number): object {
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clientConnection: { kubeconfig: componentKubeconfig(places, "kube-proxy") },
    hostnameOverride: node.name,
    bindAddress: nodeAddress(index),
    clusterCIDR: POD_ADDRESSES,
    healthzBindAddress: "127.0.0.1:10256",
    metricsBindAddress: "127.0.0.1:10249",
    oomScoreAdj: 0,
    // These are the whole machine's: left as they are.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
  };
}
