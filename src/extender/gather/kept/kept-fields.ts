// What the extender keeps of each object: it holds all volumes of the cluster, and reads few of their fields. What many objects have in
// common (the texts of node, class and driver, the term of a node) is kept once, and a field that is not there is undefined: a spread makes an
// object larger.
import type { NodeStorage } from "../../../api/node-storage.ts";
import type { Keep } from "../../../kube/client/client.ts";
import type { CSINode, Node, Pod, StorageClass } from "../../../kube/resources.ts";
import { claimsOf, cordonTolerations } from "../../decide/decide-demand.ts";
import { type ClusterStores, isAgent, type KindsRead } from "../cluster-stores.ts";
import { agedMeta, keptLabels, keptMeta } from "./kept-metadata.ts";
import { createOnce, type Once } from "./kept-once.ts";
import { keptAttachment, keptClaim, keptLayout, keptLogicalVolume, keptVolume } from "./kept-volume.ts";

export type Keeping = { readonly [K in keyof ClusterStores]: Keep<KindsRead[K]> };

export function createKeeping(): Keeping {
  const once = createOnce();
  return {
    nodes: (node) => keptNode(node, once),
    nodeStorages: (storage) => keptNodeStorage(storage, once),
    csiNodes: (csiNode) => keptCSINode(csiNode, once),
    storageClasses: (storageClass) => keptStorageClass(storageClass, once),
    claims: (claim) => keptClaim(claim, once),
    volumes: (volume) => keptVolume(volume, once),
    attachments: (attachment) => keptAttachment(attachment, once),
    layouts: (layout) => keptLayout(layout, once),
    logicalVolumes: (logicalVolume) => keptLogicalVolume(logicalVolume, once),
    pods: (pod) => keptPod(pod, once),
  };
}

function keptNode({ apiVersion, kind, metadata, spec }: Node, once: Once): Node {
  return {
    apiVersion,
    kind,
    metadata: { ...keptMeta(metadata, once), labels: keptLabels(metadata.labels, once) },
    spec: once.shape({ unschedulable: spec?.unschedulable }),
  };
}

function keptNodeStorage({ apiVersion, metadata, status }: NodeStorage, once: Once): NodeStorage {
  return { apiVersion, kind: "NodeStorage", metadata: keptMeta(metadata, once), status };
}

function keptCSINode({ apiVersion, kind, metadata, spec }: CSINode, once: Once): CSINode {
  return {
    apiVersion,
    kind,
    metadata: keptMeta(metadata, once),
    spec: {
      drivers: once.shape(spec.drivers.map(({ name, allocatable }) => ({ name, nodeID: "", allocatable }))),
    },
  };
}

function keptStorageClass(
  { apiVersion, kind, metadata, provisioner, parameters }: StorageClass,
  once: Once,
): StorageClass {
  return { apiVersion, kind, metadata: keptMeta(metadata, once), provisioner, parameters };
}

/** Agents, and those that have claims. */
function keptPod(pod: Pod, once: Once): Pod | undefined {
  const isOfAgent = isAgent(pod);
  if (!isOfAgent && claimsOf(pod).length === 0) return undefined;
  const { apiVersion, kind, metadata, spec, status } = pod;
  return {
    apiVersion,
    kind,
    metadata: isOfAgent
      ? { ...agedMeta(metadata, once), labels: keptLabels(metadata.labels, once) }
      : keptMeta(metadata, once),
    spec: {
      nodeName: once.text(spec.nodeName),
      containers: NO_CONTAINERS,
      volumes: keptVolumes(spec.volumes, once),
      tolerations: keptTolerations(spec.tolerations, once),
    },
    status: once.shape({
      phase: status?.phase,
      nominatedNodeName: status?.nominatedNodeName,
      conditions: isOfAgent ? status?.conditions?.filter(({ type }) => type === "Ready") : undefined,
    }),
  };
}

/** Those that are looked at, which few pods have. */
function keptTolerations(tolerations: Pod["spec"]["tolerations"], once: Once): Pod["spec"]["tolerations"] {
  const looked = cordonTolerations(tolerations ?? []);
  return looked.length === 0
    ? undefined
    : looked.map(({ key, operator, effect }) => once.shape({ key, operator, effect }));
}

const NO_CONTAINERS: Pod["spec"]["containers"] = [];

/** Those of claims. */
function keptVolumes(volumes: Pod["spec"]["volumes"], once: Once): Pod["spec"]["volumes"] {
  return volumes
    ?.filter(({ persistentVolumeClaim, ephemeral }) => persistentVolumeClaim ?? ephemeral)
    .map(({ name, persistentVolumeClaim, ephemeral }) => ({
      name: once.text(name),
      persistentVolumeClaim: persistentVolumeClaim && { claimName: persistentVolumeClaim.claimName },
      ephemeral: ephemeral && once.shape({}),
    }));
}
