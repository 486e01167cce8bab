// What the extender keeps of each object: it holds all volumes of the cluster, and reads few of their fields. Texts that many objects have
// in common (node, class, driver) are kept once. Of what is kept already everything is kept.
import type { FilesystemLayout, MemberSpec } from "../api/filesystem-layout.ts";
import { RECORDS, SELECTED_NODE } from "../api/names.ts";
import { driverNamed } from "../csi/driver.ts";
import type { Keep } from "../kube/client.ts";
import type { ObjectMeta } from "../kube/object.ts";
import type { PersistentVolume } from "../kube/resources.ts";
import { type ClusterStores, isAgent, type KindsRead } from "./cluster-stores.ts";
import { claimsOf } from "./decide-demand.ts";

export type Keeping = { readonly [K in keyof ClusterStores]: Keep<KindsRead[K]> };

type Text = <T extends string | undefined>(text: T) => T;

export function createKeeping(): Keeping {
  const once = createOnce();
  return {
    nodes: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: { ...meta(metadata, once), labels: onceAll(metadata.labels, once) },
      spec: { unschedulable: spec?.unschedulable },
    }),
    nodeStorages: ({ apiVersion, metadata, status }) => ({
      apiVersion,
      kind: "NodeStorage",
      metadata: meta(metadata, once),
      status,
    }),
    csiNodes: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: meta(metadata, once),
      spec: {
        drivers: spec.drivers.map(({ name, allocatable }) => ({ name: once(name), nodeID: "", allocatable })),
      },
    }),
    storageClasses: ({ apiVersion, kind, metadata, provisioner, parameters }) => ({
      apiVersion,
      kind,
      metadata: meta(metadata, once),
      provisioner,
      parameters,
    }),
    claims: ({ apiVersion, kind, metadata, spec }) => {
      const selected = metadata.annotations?.[SELECTED_NODE];
      const owners = metadata.ownerReferences?.filter((owner) => owner.kind === "Pod");
      return {
        apiVersion,
        kind,
        metadata: {
          ...meta(metadata, once),
          ...(selected === undefined ? {} : { annotations: { [SELECTED_NODE]: once(selected) } }),
          ...(owners === undefined || owners.length === 0 ? {} : { ownerReferences: owners }),
        },
        spec: {
          storageClassName: once(spec.storageClassName),
          volumeName: spec.volumeName,
          resources: { requests: { storage: once(spec.resources?.requests?.storage) } },
        },
      };
    },
    volumes: ({ apiVersion, kind, metadata, spec }) => {
      const uid = metadata.labels?.[RECORDS.volumeUID];
      return {
        apiVersion,
        kind,
        metadata: { ...meta(metadata, once), ...(uid === undefined ? {} : { labels: { [RECORDS.volumeUID]: uid } }) },
        spec: {
          ...(spec.csi && { csi: { driver: once(spec.csi.driver), volumeHandle: spec.csi.volumeHandle } }),
          ...keptClaim(spec),
          ...(spec.nodeAffinity && { nodeAffinity: onceAffinity(spec.nodeAffinity, once) }),
        },
      };
    },
    attachments: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: meta(metadata, once),
      spec: {
        attacher: once(spec.attacher),
        nodeName: once(spec.nodeName),
        source: { persistentVolumeName: spec.source.persistentVolumeName },
      },
    }),
    layouts: (layout) => keptLayout(layout, once),
    logicalVolumes: ({ apiVersion, metadata, spec, status }) => ({
      apiVersion,
      kind: "LogicalVolume",
      metadata: {
        ...meta(metadata, once),
        ...(status?.code === undefined ? {} : { generation: metadata.generation }),
      },
      spec: {
        nodeName: once(spec.nodeName),
        deviceClass: once(spec.deviceClass),
        size: once(spec.size),
        state: once(spec.state),
        volumeID: spec.volumeID,
      },
      status: {
        volumeID: status?.volumeID,
        currentSize: once(status?.currentSize),
        ...(status?.code === undefined ? {} : { code: status.code, observedGeneration: status.observedGeneration }),
      },
    }),
    pods: (pod) => {
      const { apiVersion, kind, metadata, spec, status } = pod;
      const agent = isAgent(pod);
      if (!agent && claimsOf(pod).length === 0) return undefined;
      return {
        apiVersion,
        kind,
        metadata: { ...meta(metadata, once), ...(agent ? { labels: onceAll(metadata.labels, once) } : {}) },
        spec: {
          nodeName: once(spec.nodeName),
          containers: [],
          volumes: spec.volumes
            ?.filter(({ persistentVolumeClaim, ephemeral }) => persistentVolumeClaim ?? ephemeral)
            .map(({ name, persistentVolumeClaim, ephemeral }) => ({
              name: once(name),
              ...(persistentVolumeClaim && { persistentVolumeClaim: { claimName: persistentVolumeClaim.claimName } }),
              ...(ephemeral && { ephemeral: {} }),
            })),
        },
        status: {
          phase: once(status?.phase),
          nominatedNodeName: once(status?.nominatedNodeName),
          ...(agent ? { conditions: status?.conditions?.filter(({ type }) => type === "Ready") } : {}),
        },
      };
    },
  };
}

/** Of other drivers' volumes, which nothing else leads from to their claims. */
function keptClaim({ csi, claimRef }: PersistentVolume["spec"]): Pick<PersistentVolume["spec"], "claimRef"> {
  if (csi === undefined || claimRef === undefined || driverNamed(csi.driver) !== undefined) return {};
  return { claimRef: { uid: claimRef.uid } };
}

function keptLayout({ apiVersion, metadata, spec, status }: FilesystemLayout, once: Text): FilesystemLayout {
  const { target, emergency } = spec;
  return {
    apiVersion,
    kind: "FilesystemLayout",
    metadata: meta(metadata, once),
    spec: {
      backend: once(spec.backend),
      nodeName: once(spec.nodeName),
      members: spec.members?.map((member) => keptMember(member, once)),
      target,
      emergency,
    },
    status: {
      nodeName: once(status?.nodeName),
      members: status?.members?.map(({ name, size, state }) => ({
        name: once(name),
        size: once(size),
        state: once(state),
      })),
      lastOperation: status?.lastOperation && { ...status.lastOperation, message: undefined },
    },
  };
}

function keptMember({ name, size, state, source }: MemberSpec, once: Text): MemberSpec {
  const { loop, logicalVolume, claim } = source;
  return {
    name: once(name),
    size: once(size),
    state: once(state),
    source: {
      ...(loop && { loop: { file: "" } }),
      ...(logicalVolume && {
        logicalVolume: { name: "", volumeID: "", deviceClass: once(logicalVolume.deviceClass) },
      }),
      ...(claim && { claim: { name: "", volumeName: claim.volumeName, driver: once(claim.driver) } }),
    },
  };
}

function meta(
  { name, namespace, uid, resourceVersion, creationTimestamp, deletionTimestamp }: ObjectMeta,
  once: Text,
): ObjectMeta {
  return {
    name,
    ...(namespace === undefined ? {} : { namespace: once(namespace) }),
    uid,
    resourceVersion,
    creationTimestamp,
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}

function onceAll(labels: Readonly<Record<string, string>> | undefined, once: Text): Record<string, string> {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([key, value]) => [once(key), once(value)]));
}

type Affinity = NonNullable<KindsRead["volumes"]["spec"]["nodeAffinity"]>;

function onceAffinity({ required }: Affinity, once: Text): Affinity {
  return {
    required: required && {
      nodeSelectorTerms: required.nodeSelectorTerms.map(({ matchExpressions }) => ({
        matchExpressions: matchExpressions?.map(({ key, operator, values }) => ({
          key: once(key),
          operator: once(operator),
          values: values?.map(once),
        })),
      })),
    },
  };
}

/** Texts that are seen too many of are not worth it: they are begun anew. */
const TEXTS_LIMIT = 50_000;

function createOnce(): Text {
  const texts = new Map<string, string>();
  return <T extends string | undefined>(text: T): T => {
    if (text === undefined) return text;
    const known = texts.get(text);
    if (known !== undefined) return known as T;
    if (texts.size >= TEXTS_LIMIT) texts.clear();
    texts.set(text, text);
    return text;
  };
}
