// The member driver in a cluster: its controller beside upstream's sidecars, its node part on each node, its CSIDriver and its
// StorageClass. The directory of the volumes is the same for all nodes, since all of them are on one machine.
import { MEMBER_CLASS, MEMBER_DRIVER } from "./config.ts";

export const NAMESPACE = "member-driver";
export const DRIVER_IMAGE = "tidemark.test/member-driver:1";
/** Where the image has the bundle. */
export const BUNDLE = "member-driver.mjs";
export const WORKLOADS = ["deployment/member-controller", "daemonset/member-node"] as const;

const MEMBERS = "/members";
const CONTROLLER_SOCKET = "/run/csi/csi.sock";
const KUBELET = "/var/lib/kubelet";
const NODE_SOCKET = `${KUBELET}/plugins/${MEMBER_DRIVER}/csi.sock`;
/** A controller on a node that is lost starts on another after this. */
const LOST_NODE_SECONDS = 5;

/** A program of upstream's, and the image that has it alone. */
export interface Sidecar {
  readonly program: string;
  readonly image: string;
}

/** `directory` is on the nodes. */
export function memberDriverManifests(directory: string, sidecars: readonly Sidecar[]): object[] {
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: NAMESPACE, namespace: NAMESPACE } },
    {
      apiVersion: "storage.k8s.io/v1",
      kind: "CSIDriver",
      metadata: { name: MEMBER_DRIVER },
      spec: { attachRequired: true, podInfoOnMount: false, fsGroupPolicy: "File" },
    },
    {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: MEMBER_CLASS },
      provisioner: MEMBER_DRIVER,
      // An ext4 in use does not grow where root lacks CAP_SYS_RESOURCE.
      parameters: { "csi.storage.k8s.io/fstype": "btrfs" },
      allowVolumeExpansion: true,
      volumeBindingMode: "WaitForFirstConsumer",
    },
    workload(
      "Deployment",
      "member-controller",
      { replicas: 1, strategy: { type: "Recreate" } },
      controllerPod(directory, sidecars),
    ),
    workload("DaemonSet", "member-node", {}, nodePod(directory)),
  ];
}

function workload(kind: "Deployment" | "DaemonSet", name: string, settings: object, pod: object): object {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: { name, namespace: NAMESPACE },
    spec: { ...settings, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: pod } },
  };
}

function controllerPod(directory: string, sidecars: readonly Sidecar[]): object {
  const volumeMounts = [{ name: "csi", mountPath: "/run/csi" }];
  const containers = sidecars.map(({ program, image }) => ({
    name: program,
    image,
    imagePullPolicy: "Never",
    command: [`/${program}`],
    args: [`--csi-address=${CONTROLLER_SOCKET}`, ...TIMES, ...(program === "csi-resizer" ? RESIZER : [])],
    volumeMounts,
  }));
  return {
    serviceAccountName: NAMESPACE,
    terminationGracePeriodSeconds: 1,
    tolerations: ["not-ready", "unreachable"].map((state) => ({
      key: `node.kubernetes.io/${state}`,
      operator: "Exists",
      effect: "NoExecute",
      tolerationSeconds: LOST_NODE_SECONDS,
    })),
    containers: [driverContainer(["--controller", `--socket=${CONTROLLER_SOCKET}`], volumeMounts), ...containers],
    volumes: [{ name: "csi", emptyDir: {} }, ...driverVolumes(directory)],
  };
}

/** A failing or slow driver is asked again soon. */
const TIMES = ["--timeout=30s", "--retry-interval-start=200ms", "--retry-interval-max=5s"];
const RESIZER = ["--handle-volume-inuse-error=false"];

function nodePod(directory: string): object {
  const flags = [
    "--node=$(NODE_NAME)",
    `--socket=${NODE_SOCKET}`,
    `--registration-directory=${KUBELET}/plugins_registry`,
  ];
  const kubelet = { name: "kubelet", mountPath: KUBELET, mountPropagation: "Bidirectional" };
  return {
    terminationGracePeriodSeconds: 1,
    tolerations: [{ operator: "Exists" }],
    containers: [driverContainer(flags, [kubelet])],
    volumes: [{ name: "kubelet", hostPath: { path: KUBELET, type: "Directory" } }, ...driverVolumes(directory)],
  };
}

/** The controller, too, takes loop devices away: a dead node's. */
function driverContainer(flags: readonly string[], volumeMounts: readonly object[]): object {
  return {
    name: "driver",
    image: DRIVER_IMAGE,
    imagePullPolicy: "Never",
    command: ["node", `/opt/tidemark/${BUNDLE}`],
    args: [`--driver-name=${MEMBER_DRIVER}`, `--directory=${MEMBERS}`, ...flags],
    env: [{ name: "NODE_NAME", valueFrom: { fieldRef: { fieldPath: "spec.nodeName" } } }],
    securityContext: { privileged: true },
    volumeMounts: [...volumeMounts, { name: "members", mountPath: MEMBERS }, { name: "dev", mountPath: "/dev" }],
  };
}

function driverVolumes(directory: string): object[] {
  return [
    { name: "members", hostPath: { path: directory, type: "DirectoryOrCreate" } },
    { name: "dev", hostPath: { path: "/dev", type: "Directory" } },
  ];
}
