// What the extender keeps of the objects that make up a volume: its claim, its PersistentVolume, its attachments, and what its node is
// told and tells of it.
import type { FilesystemLayout, MemberSpec } from "../../../api/filesystem-layout.ts";
import type { LogicalVolume } from "../../../api/logical-volume.ts";
import { driverNamed } from "../../../csi/driver.ts";
import type { PersistentVolume, PersistentVolumeClaim, VolumeAttachment } from "../../../kube/resources.ts";
import { agedMeta, claimMeta, keptMeta, volumeMeta } from "./kept-metadata.ts";
import type { Once } from "./kept-once.ts";

export function keptClaim(
  { apiVersion, kind, metadata, spec }: PersistentVolumeClaim,
  once: Once,
): PersistentVolumeClaim {
  return {
    apiVersion,
    kind,
    metadata: claimMeta(metadata, once),
    spec: {
      storageClassName: once.text(spec.storageClassName),
      volumeName: spec.volumeName,
      resources: once.shape({ requests: { storage: spec.resources?.requests?.storage } }),
    },
  };
}

export function keptVolume({ apiVersion, kind, metadata, spec }: PersistentVolume, once: Once): PersistentVolume {
  return {
    apiVersion,
    kind,
    metadata: volumeMeta(metadata, once),
    spec: {
      csi: spec.csi && { driver: once.text(spec.csi.driver), volumeHandle: spec.csi.volumeHandle },
      claimRef: keptClaimRef(spec),
      nodeAffinity: spec.nodeAffinity && once.shape(keptAffinity(spec.nodeAffinity)),
    },
  };
}

/** Of other drivers' volumes, which nothing else leads from to their claims. */
function keptClaimRef({ csi, claimRef }: PersistentVolume["spec"]): PersistentVolume["spec"]["claimRef"] {
  if (csi === undefined || claimRef === undefined || driverNamed(csi.driver) !== undefined) return undefined;
  return { uid: claimRef.uid };
}

type Affinity = NonNullable<PersistentVolume["spec"]["nodeAffinity"]>;

function keptAffinity({ required }: Affinity): Affinity {
  return {
    required: required && {
      nodeSelectorTerms: required.nodeSelectorTerms.map(({ matchExpressions }) => ({
        matchExpressions: matchExpressions?.map(({ key, operator, values }) => ({ key, operator, values })),
      })),
    },
  };
}

export function keptAttachment({ apiVersion, kind, metadata, spec }: VolumeAttachment, once: Once): VolumeAttachment {
  return {
    apiVersion,
    kind,
    metadata: keptMeta(metadata, once),
    spec: {
      attacher: once.text(spec.attacher),
      nodeName: once.text(spec.nodeName),
      source: { persistentVolumeName: spec.source.persistentVolumeName },
    },
  };
}

export function keptLayout({ apiVersion, metadata, spec, status }: FilesystemLayout, once: Once): FilesystemLayout {
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

function keptMember({ name, size, state, source }: MemberSpec, once: Once): MemberSpec {
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

export function keptLogicalVolume({ apiVersion, metadata, spec, status }: LogicalVolume, once: Once): LogicalVolume {
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
