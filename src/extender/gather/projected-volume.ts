// The projections of the objects that make up a volume: its claim, its PersistentVolume, its attachments, its layout and its LogicalVolume.
import { driverNamed } from "../../contracts/csi/driver.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type { LogicalVolume } from "../../contracts/kinds/logical-volume.ts";
import type { ObjectMeta } from "../../contracts/kubernetes/object.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { RECORDS, SELECTED_NODE } from "../../contracts/names.ts";

export function projectedClaim(
  { apiVersion, kind, metadata, spec }: PersistentVolumeClaim,
  once: Once,
): PersistentVolumeClaim {
  const storage = spec.resources?.requests?.storage;
  const requests: Record<string, string> = storage === undefined ? {} : { storage };
  return {
    apiVersion,
    kind,
    metadata: claimMeta(metadata, once),
    spec: {
      storageClassName: once.text(spec.storageClassName),
      volumeName: spec.volumeName,
      resources: once.shape({ requests }),
    },
  };
}

export function projectedVolume({ apiVersion, kind, metadata, spec }: PersistentVolume, once: Once): PersistentVolume {
  return {
    apiVersion,
    kind,
    metadata: volumeMeta(metadata, once),
    spec: {
      csi: spec.csi && { driver: once.text(spec.csi.driver), volumeHandle: spec.csi.volumeHandle },
      claimRef: projectedClaimRef(spec),
      nodeAffinity: spec.nodeAffinity && once.shape(projectedAffinity(spec.nodeAffinity)),
    },
  };
}

/** Of other drivers' volumes, which nothing else leads from to their claims. */
function projectedClaimRef({ csi, claimRef }: PersistentVolume["spec"]): PersistentVolume["spec"]["claimRef"] {
  if (csi === undefined || claimRef === undefined || driverNamed(csi.driver) !== undefined) return undefined;
  return { uid: claimRef.uid };
}

type Affinity = NonNullable<PersistentVolume["spec"]["nodeAffinity"]>;

function projectedAffinity({ required }: Affinity): Affinity {
  return {
    required: required && {
      nodeSelectorTerms: required.nodeSelectorTerms.map(({ matchExpressions }) => ({
        matchExpressions: matchExpressions?.map(({ key, operator, values }) => ({ key, operator, values })),
      })),
    },
  };
}

export function projectedAttachment(
  { apiVersion, kind, metadata, spec }: VolumeAttachment,
  once: Once,
): VolumeAttachment {
  return {
    apiVersion,
    kind,
    metadata: projectedMeta(metadata, once),
    spec: {
      attacher: once.text(spec.attacher),
      nodeName: once.text(spec.nodeName),
      source: { persistentVolumeName: spec.source.persistentVolumeName },
    },
  };
}

export function projectedLayout(
  { apiVersion, metadata, spec, status }: FilesystemLayout,
  once: Once,
): FilesystemLayout {
  const { target, emergency } = spec;
  // A target is carried out once at most, and nothing else of the operation is read.
  const hasEnded = target?.decidedAt === status?.lastOperation?.decidedAt;
  const members = spec.members?.map((member) => projectedMember(member, once));
  const isOwn = members?.every(({ source }) => source.claim === undefined) === true;
  return {
    apiVersion,
    kind: "FilesystemLayout",
    metadata: agedMeta(metadata, once),
    spec: {
      backend: once.text(spec.backend),
      nodeName: once.text(spec.nodeName),
      // Those of other drivers have each a volume of its own.
      members: isOwn ? once.shape(members) : members,
      target: hasEnded ? undefined : target,
      emergency,
    },
    status: {
      nodeName: once.text(status?.nodeName),
      members: status?.members && once.shape(status.members.map(({ name, size, state }) => ({ name, size, state }))),
    },
  };
}

function projectedMember({ name, size, state, source }: MemberSpec, once: Once): MemberSpec {
  const { loop, logicalVolume, claim } = source;
  return {
    name: once.text(name),
    size: once.text(size),
    state: once.text(state),
    source: {
      loop: loop && { file: "" },
      logicalVolume: logicalVolume && { name: "", volumeID: "", deviceClass: once.text(logicalVolume.deviceClass) },
      claim: claim && { name: "", volumeName: claim.volumeName, driver: once.text(claim.driver) },
    },
  };
}

export function projectedLogicalVolume(
  { apiVersion, metadata, spec, status }: LogicalVolume,
  once: Once,
): LogicalVolume {
  return {
    apiVersion,
    kind: "LogicalVolume",
    metadata: agedMeta(metadata, once, status?.code === undefined ? undefined : metadata.generation),
    spec: {
      nodeName: once.text(spec.nodeName),
      deviceClass: once.text(spec.deviceClass),
      size: once.text(spec.size),
      state: once.text(spec.state),
      volumeID: spec.volumeID,
    },
    status: {
      volumeID: status?.volumeID,
      currentSize: once.text(status?.currentSize),
      code: status?.code,
      observedGeneration: status?.code === undefined ? undefined : status.observedGeneration,
    },
  };
}

// Of any object its metadata, reduced to what placement reads of its kind, and the pool in which equal texts and shapes are stored once.

export function projectedMeta(
  { name, namespace, uid, resourceVersion, deletionTimestamp }: ObjectMeta,
  once: Once,
): ObjectMeta {
  return { name, namespace: once.text(namespace), uid, resourceVersion, deletionTimestamp };
}

/** Of those whose age counts. */
export function agedMeta(
  { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, namespace }: ObjectMeta,
  once: Once,
  generation?: number,
): ObjectMeta {
  return {
    name,
    namespace: once.text(namespace),
    uid,
    resourceVersion,
    creationTimestamp: once.text(creationTimestamp),
    deletionTimestamp,
    generation,
  };
}

function claimMeta(whole: ObjectMeta, once: Once): ObjectMeta {
  const selected = whole.annotations?.[SELECTED_NODE];
  const owners = whole.ownerReferences?.filter((owner) => owner.kind === "Pod") ?? [];
  const meta = projectedMeta(whole, once);
  if (selected !== undefined) meta.annotations = { [SELECTED_NODE]: once.text(selected) };
  if (owners.length > 0) meta.ownerReferences = owners;
  return meta;
}

function volumeMeta(whole: ObjectMeta, once: Once): ObjectMeta {
  const uid = whole.labels?.[RECORDS.volumeUID];
  const meta = projectedMeta(whole, once);
  if (uid !== undefined) meta.labels = { [RECORDS.volumeUID]: uid };
  return meta;
}

export function projectedLabels(
  labels: Readonly<Record<string, string>> | undefined,
  once: Once,
): Record<string, string> {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([key, value]) => [once.text(key), once.text(value)]));
}

export interface Once {
  /** The same text, in the memory of the first one. */
  text<T extends string | undefined>(text: T): T;
  /** The same shape, likewise: no caller may change it. */
  shape<T extends object>(shape: T): T;
}

/** Above this number of texts sharing is not worth it: the pool starts empty again. */
const TEXTS_LIMIT = 50_000;
/** The same of shapes: each is known by its whole text. */
const SHAPES_LIMIT = 10_000;

export function createOnce(): Once {
  const texts = new Map<string, string>();
  const shapes = new Map<string, object>();
  return {
    text: <T extends string | undefined>(text: T): T => {
      if (text === undefined) return text;
      const known = texts.get(text);
      if (known !== undefined) return known as T;
      if (texts.size >= TEXTS_LIMIT) texts.clear();
      texts.set(text, text);
      return text;
    },
    shape: <T extends object>(shape: T): T => {
      const text = JSON.stringify(shape);
      const known = shapes.get(text);
      if (known !== undefined) return known as T;
      if (shapes.size >= SHAPES_LIMIT) shapes.clear();
      shapes.set(text, shape);
      return shape;
    },
  };
}
