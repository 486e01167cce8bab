// What a layout says of a member's claim, copied from the claim, its PersistentVolume and its VolumeAttachment. Pure.
import type { ClaimSource } from "../../api/filesystem-layout.ts";
import type { ObjectName } from "../../kube/object.ts";
import type { PersistentVolume, PersistentVolumeClaim, VolumeAttachment } from "../../kube/resources.ts";

/** Of a bound claim; attached nowhere. */
export function boundSource(claim: PersistentVolumeClaim, { metadata, spec }: PersistentVolume): ClaimSource {
  const { csi, capacity } = spec;
  return defined({
    name: claim.metadata.name,
    uid: claim.metadata.uid,
    volumeName: metadata.name,
    persistentVolumeUID: metadata.uid,
    driver: csi?.driver,
    volumeHandle: csi?.volumeHandle,
    volumeAttributes: csi?.volumeAttributes,
    capacity: capacity?.storage,
    nodeStageSecretRef: secretOf(csi?.nodeStageSecretRef),
    nodePublishSecretRef: secretOf(csi?.nodePublishSecretRef),
    nodeExpandSecretRef: secretOf(csi?.nodeExpandSecretRef),
  });
}

/** Undefined while it is not attached. */
export function attachmentOf(attachment: VolumeAttachment): ClaimSource["attachment"] {
  const { metadata, spec, status } = attachment;
  if (status?.attached !== true || metadata.deletionTimestamp !== undefined) return undefined;
  const context = status.attachmentMetadata;
  const { name, uid } = metadata;
  return {
    nodeName: spec.nodeName,
    name,
    ...(uid === undefined ? {} : { uid }),
    ...(context === undefined ? {} : { context }),
  };
}

export function withoutAttachment({ attachment: _gone, ...source }: ClaimSource): ClaimSource {
  return source;
}

function secretOf(reference: ObjectName | undefined): ClaimSource["nodeStageSecretRef"] {
  return reference?.namespace === undefined ? undefined : { namespace: reference.namespace, name: reference.name };
}

function defined(source: ClaimSource): ClaimSource {
  return Object.fromEntries(Object.entries(source).filter(([, value]) => value !== undefined)) as ClaimSource;
}
