// What the extender keeps of each object: it holds all volumes of the cluster, and reads few of their fields. What many objects have in
// common (the texts of node, class and driver, the term of a node) is kept once, and a field that is not there is undefined: a spread makes an
// object larger. What was kept once is kept whole when it is given again.
import type { FilesystemLayout, MemberSpec } from "../api/filesystem-layout.ts";
import { RECORDS, SELECTED_NODE } from "../api/names.ts";
import { driverNamed } from "../csi/driver.ts";
import type { Keep } from "../kube/client.ts";
import type { ObjectMeta } from "../kube/object.ts";
import type { PersistentVolume, Pod } from "../kube/resources.ts";
import { type ClusterStores, isAgent, type KindsRead } from "./cluster-stores.ts";
import { claimsOf } from "./decide-demand.ts";

export type Keeping = { readonly [K in keyof ClusterStores]: Keep<KindsRead[K]> };

type Text = <T extends string | undefined>(text: T) => T;
type Shape = <T extends object>(shape: T) => T;

const NO_CONTAINERS: Pod["spec"]["containers"] = [];

export function createKeeping(): Keeping {
  const once = createOnce();
  const shared = createShared();
  return {
    nodes: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: { ...meta(metadata, once), labels: onceAll(metadata.labels, once) },
      spec: shared({ unschedulable: spec?.unschedulable }),
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
        drivers: shared(spec.drivers.map(({ name, allocatable }) => ({ name, nodeID: "", allocatable }))),
      },
    }),
    storageClasses: ({ apiVersion, kind, metadata, provisioner, parameters }) => ({
      apiVersion,
      kind,
      metadata: meta(metadata, once),
      provisioner,
      parameters,
    }),
    claims: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: claimMeta(metadata, once),
      spec: {
        storageClassName: once(spec.storageClassName),
        volumeName: spec.volumeName,
        resources: shared({ requests: { storage: spec.resources?.requests?.storage } }),
      },
    }),
    volumes: ({ apiVersion, kind, metadata, spec }) => ({
      apiVersion,
      kind,
      metadata: volumeMeta(metadata, once),
      spec: {
        csi: spec.csi && { driver: once(spec.csi.driver), volumeHandle: spec.csi.volumeHandle },
        claimRef: keptClaim(spec),
        nodeAffinity: spec.nodeAffinity && shared(keptAffinity(spec.nodeAffinity)),
      },
    }),
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
    layouts: (layout) => keptLayout(layout, once, shared),
    logicalVolumes: ({ apiVersion, metadata, spec, status }) => ({
      apiVersion,
      kind: "LogicalVolume",
      metadata: agedMeta(metadata, once, status?.code === undefined ? undefined : metadata.generation),
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
        code: status?.code,
        observedGeneration: status?.code === undefined ? undefined : status.observedGeneration,
      },
    }),
    pods: (pod) => {
      const { apiVersion, kind, metadata, spec, status } = pod;
      const agent = isAgent(pod);
      if (!agent && claimsOf(pod).length === 0) return undefined;
      return {
        apiVersion,
        kind,
        metadata: agent
          ? { ...agedMeta(metadata, once), labels: onceAll(metadata.labels, once) }
          : meta(metadata, once),
        spec: {
          nodeName: once(spec.nodeName),
          containers: NO_CONTAINERS,
          volumes: spec.volumes
            ?.filter(({ persistentVolumeClaim, ephemeral }) => persistentVolumeClaim ?? ephemeral)
            .map(({ name, persistentVolumeClaim, ephemeral }) => ({
              name: once(name),
              persistentVolumeClaim: persistentVolumeClaim && { claimName: persistentVolumeClaim.claimName },
              ephemeral: ephemeral && shared({}),
            })),
        },
        status: shared({
          phase: status?.phase,
          nominatedNodeName: status?.nominatedNodeName,
          conditions: agent ? status?.conditions?.filter(({ type }) => type === "Ready") : undefined,
        }),
      };
    },
  };
}

/** Of other drivers' volumes, which nothing else leads from to their claims. */
function keptClaim({ csi, claimRef }: PersistentVolume["spec"]): PersistentVolume["spec"]["claimRef"] {
  if (csi === undefined || claimRef === undefined || driverNamed(csi.driver) !== undefined) return undefined;
  return { uid: claimRef.uid };
}

function keptLayout(
  { apiVersion, metadata, spec, status }: FilesystemLayout,
  once: Text,
  shared: Shape,
): FilesystemLayout {
  const { target, emergency } = spec;
  // A target is carried out once at most, and nothing else of the operation is read.
  const hasEnded = target?.decidedAt === status?.lastOperation?.decidedAt;
  const members = spec.members?.map((member) => keptMember(member, once));
  const isOwn = members?.every(({ source }) => source.claim === undefined) === true;
  return {
    apiVersion,
    kind: "FilesystemLayout",
    metadata: agedMeta(metadata, once),
    spec: {
      backend: once(spec.backend),
      nodeName: once(spec.nodeName),
      // Those of other drivers have each a volume of its own.
      members: isOwn ? shared(members) : members,
      target: hasEnded ? undefined : target,
      emergency,
    },
    status: {
      nodeName: once(status?.nodeName),
      members: status?.members && shared(status.members.map(({ name, size, state }) => ({ name, size, state }))),
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
      loop: loop && { file: "" },
      logicalVolume: logicalVolume && { name: "", volumeID: "", deviceClass: once(logicalVolume.deviceClass) },
      claim: claim && { name: "", volumeName: claim.volumeName, driver: once(claim.driver) },
    },
  };
}

function meta({ name, namespace, uid, resourceVersion, deletionTimestamp }: ObjectMeta, once: Text): ObjectMeta {
  return { name, namespace: once(namespace), uid, resourceVersion, deletionTimestamp };
}

/** Of those whose age counts. */
function agedMeta(
  { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, namespace }: ObjectMeta,
  once: Text,
  generation?: number,
): ObjectMeta {
  return {
    name,
    namespace: once(namespace),
    uid,
    resourceVersion,
    creationTimestamp: once(creationTimestamp),
    deletionTimestamp,
    generation,
  };
}

function claimMeta(whole: ObjectMeta, once: Text): ObjectMeta {
  const selected = whole.annotations?.[SELECTED_NODE];
  const owners = whole.ownerReferences?.filter((owner) => owner.kind === "Pod") ?? [];
  const kept = meta(whole, once);
  if (selected !== undefined) kept.annotations = { [SELECTED_NODE]: once(selected) };
  if (owners.length > 0) kept.ownerReferences = owners;
  return kept;
}

function volumeMeta(whole: ObjectMeta, once: Text): ObjectMeta {
  const uid = whole.labels?.[RECORDS.volumeUID];
  const kept = meta(whole, once);
  if (uid !== undefined) kept.labels = { [RECORDS.volumeUID]: uid };
  return kept;
}

function onceAll(labels: Readonly<Record<string, string>> | undefined, once: Text): Record<string, string> {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([key, value]) => [once(key), once(value)]));
}

type Affinity = NonNullable<KindsRead["volumes"]["spec"]["nodeAffinity"]>;

function keptAffinity({ required }: Affinity): Affinity {
  return {
    required: required && {
      nodeSelectorTerms: required.nodeSelectorTerms.map(({ matchExpressions }) => ({
        matchExpressions: matchExpressions?.map(({ key, operator, values }) => ({ key, operator, values })),
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

/** Shapes that are seen too many of are begun anew, too: each is known by its whole text. */
const SHAPES_LIMIT = 10_000;

function createShared(): Shape {
  const shapes = new Map<string, object>();
  return <T extends object>(shape: T): T => {
    const text = JSON.stringify(shape);
    const known = shapes.get(text);
    if (known !== undefined) return known as T;
    if (shapes.size >= SHAPES_LIMIT) shapes.clear();
    shapes.set(text, shape);
    return shape;
  };
}
