// All that there is in a cluster of ours, as lines that can be compared: objects of every kind that the API server has, workloads with
// what is ready of them, nodes with their labels and taints, and on the nodes mounts, loop devices, logical volumes and records. What
// comes and goes by itself is left out.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { mountsUnder } from "../../demo/show/run/mount-table.ts";
import type { ReduceRecord } from "../../src/lvmd/volumes/reduce/reductions.ts";
import type { ConnectedKubeClient } from "../../src/platform/kube/client/http-client.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { loopDevicesOn } from "../cluster/loop-devices.ts";
import { KUBELET_DIRECTORY } from "../cluster/node-settings.ts";
import { nodePlaces } from "../cluster/places.ts";
import { onlyChild, runningProcess } from "../cluster/recorded-process.ts";
import { memberDirectoryOf } from "../member-driver/install.ts";
import { readSwitches } from "../member-driver/switches.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { hasVolumeGroup, volumesOnNodes } from "./lvm-in-cluster.ts";
import { PODS } from "./pod.ts";

/** Made, renewed and removed by Kubernetes on its own, or told again by whoever owns them; pods without an owner are looked for. */
const PASSING_KINDS: readonly string[] = [
  ...["componentstatuses", "endpoints", "endpointslices.discovery.k8s.io", "events", "events.events.k8s.io"],
  ...["controllerrevisions.apps", "csistoragecapacities.storage.k8s.io", "ipaddresses.networking.k8s.io"],
  ...["leases.coordination.k8s.io", "pods", "replicasets.apps"],
];
const DIGEST_LENGTH = 8;
/** Of the agent on a node, below its /var/lib. A lock is a file of nothing that outlives its volume. */
const RECORDS = ["tidemark"];
const LOCKS = "tidemark/state/locks/";
/** What pods and their network have comes and goes. */
const PASSING_MOUNTS = /^\/run\/(containerd|netns|cni)\//;

interface AnyObject {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: object;
    readonly annotations?: object;
  };
  readonly spec?: { readonly replicas?: number; readonly taints?: readonly { key: string; effect: string }[] };
  readonly status?: {
    readonly readyReplicas?: number;
    readonly replicas?: number;
    readonly numberReady?: number;
    readonly desiredNumberScheduled?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** Sorted. Two of one moment's state are the same. */
export async function whatStands(
  cluster: Cluster,
  client: ConnectedKubeClient,
  kubectl: ClusterUnderTest["kubectl"],
): Promise<string[]> {
  const pods = (await client.list(PODS)).items;
  const alive = pods.map(({ metadata }) => metadata.uid ?? "");
  const bare = pods.filter(({ metadata }) => (metadata.ownerReferences ?? []).length === 0);
  const parts = await Promise.all([
    objectLines(kubectl),
    Promise.all(cluster.nodes.map((node) => nodeLines(cluster, node, alive))),
    loopLines(cluster),
    logicalVolumeLines(cluster),
  ]);
  const podLines = bare.map(({ metadata }) => `Pod ${metadata.namespace}/${metadata.name}`);
  return [...parts.flat(2), ...podLines, ...memberDriverLines(cluster)].sort();
}

async function objectLines(kubectl: ClusterUnderTest["kubectl"]): Promise<string[]> {
  const kinds = (await kubectl("api-resources", "--verbs=list", "--output=name")).trim().split("\n");
  const asked = kinds.filter((kind) => !PASSING_KINDS.includes(kind)).join(",");
  const told = JSON.parse(await kubectl("get", asked, "--all-namespaces", "--output", "json")) as {
    items: AnyObject[];
  };
  return told.items.map(objectLine);
}

function objectLine(object: AnyObject): string {
  const { kind, metadata } = object;
  const name = metadata.namespace === undefined ? metadata.name : `${metadata.namespace}/${metadata.name}`;
  return [kind, name, ...stateOf(object)].join(" ");
}

function stateOf(object: AnyObject): string[] {
  const { kind, metadata, spec, status, ...rest } = object;
  switch (kind) {
    case "Node": {
      const taints = (spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`).sort();
      const ready = status?.conditions?.find(({ type }) => type === "Ready")?.status;
      return [`Ready=${ready}`, JSON.stringify({ taints, labels: metadata.labels, annotations: metadata.annotations })];
    }
    case "CSINode": // in the order in which drivers have registered
      return [JSON.stringify(spec, (_key, value: unknown) => (Array.isArray(value) ? sortedByText(value) : value))];
    case "Deployment":
    case "StatefulSet":
      return [digestOf(withoutRestart(spec)), `${status?.readyReplicas ?? 0} of ${spec?.replicas} ready`];
    case "DaemonSet":
      return [digestOf(withoutRestart(spec)), `${status?.numberReady} of ${status?.desiredNumberScheduled} ready`];
    default:
      return [digestOf({ spec, ...rest })];
  }
}

/** What `kubectl rollout restart` writes is no setting. */
function withoutRestart(spec: unknown): unknown {
  return JSON.parse(JSON.stringify(spec, (key, value: unknown) => (key === RESTARTED_AT ? undefined : value)));
}
const RESTARTED_AT = "kubectl.kubernetes.io/restartedAt";

function sortedByText(values: readonly unknown[]): unknown[] {
  return [...values].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, DIGEST_LENGTH);
}

async function nodeLines({ places }: Cluster, name: string, alivePods: readonly string[]): Promise<string[]> {
  const node = nodePlaces(places, name);
  const records = RECORDS.flatMap((directory) => filesUnder(join(node.varLib, directory)))
    .filter((path) => !isEndedReduction(path))
    .map((path) => path.slice(node.varLib.length + 1))
    .filter((path) => !path.startsWith(LOCKS));
  return [...records, ...(await mountsOn(places, name, alivePods))].map((path) => `${name}: ${path}`);
}

/** lvmd remembers for 30 days what became of a reduction; one without an end would be left behind. */
function isEndedReduction(path: string): boolean {
  if (!/\/lvmd\/token-[^/]*\.json$/.test(path)) return false;
  const { end } = JSON.parse(readFileSync(path, "utf8")) as ReduceRecord;
  return end.state !== "Begun";
}

/** Of pods that are alive, nothing; nor that kubelet may mount its directory onto itself when it starts. */
async function mountsOn(places: Cluster["places"], node: string, alivePods: readonly string[]): Promise<string[]> {
  const holder = runningProcess(places, node);
  if (holder === undefined) return ["no power"];
  const table = readFileSync(`/proc/${await onlyChild(holder)}/mountinfo`, "utf8");
  return [KUBELET_DIRECTORY, "/var/lib/tidemark", "/run"]
    .flatMap((directory) => mountsUnder(directory, table))
    .filter(
      (path) =>
        path !== KUBELET_DIRECTORY &&
        !PASSING_MOUNTS.test(path) &&
        !alivePods.some((uid) => uid !== "" && path.includes(uid)),
    )
    .map((path) => `mount ${path}`);
}

/** By the file behind each: the number of a device says nothing. */
async function loopLines({ places }: Cluster): Promise<string[]> {
  const devices = await loopDevicesOn(places.directory);
  return devices.map((device) => `loop device on ${backingFile(device)}`);
}

function backingFile(device: string): string {
  try {
    return readFileSync(`/sys/block/${device.replace("/dev/", "")}/loop/backing_file`, "utf8").trim();
  } catch {
    return `nothing any more (${device})`;
  }
}

async function logicalVolumeLines(cluster: Cluster): Promise<string[]> {
  if (!cluster.nodes.every((node) => hasVolumeGroup(cluster, node))) return [];
  return (await volumesOnNodes(cluster)).map(({ node, name }) => `${node}: logical volume ${name}`);
}

function memberDriverLines(cluster: Cluster): string[] {
  const directory = memberDirectoryOf(cluster);
  if (!existsSync(directory)) return [];
  const volumes = readdirSync(directory).filter((file) => /^vol-.*\.(img|json)$/.test(file));
  const { written: _, ...switches } = readSwitches(directory);
  return [`member driver's switches ${JSON.stringify(switches)}`, ...volumes.map((file) => `member driver's ${file}`)];
}

function filesUnder(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) return filesUnder(path);
    return entry.isFile() ? [path] : [];
  });
}
