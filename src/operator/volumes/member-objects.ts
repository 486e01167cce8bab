// How a member's objects are named, and what they carry: its claim, its PersistentVolume, its VolumeAttachment on a node, and the labels
// that say whose it is. Pure. All names follow from volume and member, so that a repeated step meets what an earlier one made, and no
// name is ever used for another member.
import { createHash } from "node:crypto";
import { fsidOf, volumeHandleOf, volumeUIDOf } from "../../contracts/identity.ts";
import type { MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type { KubeObject, ObjectName } from "../../contracts/kubernetes/object.ts";
import type { PersistentVolume, PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS, REFUSED_ANNOTATION, SELECTED_NODE } from "../../contracts/names.ts";
import type { Marks } from "../decide/members/member-rules.ts";

const MEMBER_NAME = /^m(\d{1,9})$/;
const ATTACHMENT_HASH_DIGITS = 32;

export function memberName(index: number): string {
  return `m${index}`;
}

/** Undefined: no name of ours. */
export function memberIndex(name: string): number | undefined {
  const index = MEMBER_NAME.exec(name)?.[1];
  return index === undefined ? undefined : Number(index);
}

export function memberClaimName(handle: string, member: string): ObjectName & { namespace: string } {
  return { namespace: MEMBER_NAMESPACE, name: `${handle}-${member}` };
}

/** Never the standard name, which the attach-detach controller takes for its own and deletes. */
export function attachmentName(handle: string, member: string, nodeName: string): string {
  const hash = createHash("sha256").update(`${handle}/${member}/${nodeName}`).digest("hex");
  return `tidemark-${hash.slice(0, ATTACHMENT_HASH_DIGITS)}`;
}

/** On the member's claim, its PersistentVolume and its VolumeAttachments. */
export function memberLabels(volumeUID: string, member: string): Record<string, string> {
  return { [RECORDS.volumeUID]: volumeUID, [RECORDS.fsid]: fsidOf(volumeUID), [MEMBER_LABEL]: member };
}

/** The handle of the volume that an object belongs to by its labels; undefined: the object is not a member's. */
export function labelledHandle({ metadata }: KubeObject): string | undefined {
  const uid = metadata.labels?.[RECORDS.volumeUID] ?? "";
  const handle = volumeHandleOf(uid);
  const member = metadata.labels?.[MEMBER_LABEL] ?? "";
  return volumeUIDOf(handle) !== undefined && memberIndex(member) !== undefined ? handle : undefined;
}

/** GitOps tools leave alone what they find: a member holds data, whatever a repository says. */
export const KEPT_BY_GITOPS = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "kustomize.toolkit.fluxcd.io/prune": "disabled",
} as const;

export interface ClaimOrder {
  readonly handle: string;
  readonly volumeUID: string;
  readonly className: string;
  /** For classes that wait for a consumer: the provisioner makes the volume for this node. */
  readonly selectedNode: string | undefined;
  /** Of the volume's own claim. */
  readonly marks?: Marks | undefined;
}

export function memberClaim(
  order: ClaimOrder,
  { name, size }: Pick<MemberSpec, "name" | "size">,
): PersistentVolumeClaim {
  const { handle, volumeUID, className, selectedNode, marks } = order;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      ...memberClaimName(handle, name),
      labels: { ...marks?.labels, ...memberLabels(volumeUID, name) },
      annotations: {
        ...marks?.annotations,
        ...KEPT_BY_GITOPS,
        ...(selectedNode === undefined ? {} : { [SELECTED_NODE]: selectedNode }),
      },
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      volumeMode: "Block",
      storageClassName: className,
      resources: { requests: size === undefined ? {} : { storage: size } },
    },
  };
}

/**
 * What a member's PersistentVolume must say before anything is written to it; undefined: it says so. It also says that
 * the member was refused, so that a recreated layout does not wait for that member.
 */
export function keptVolume(
  volume: PersistentVolume,
  volumeUID: string,
  { name, refused }: Pick<MemberSpec, "name" | "refused">,
): object | undefined {
  const { metadata, spec } = volume;
  const labels = memberLabels(volumeUID, name);
  const carries = Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value);
  const saysWhy = metadata.annotations?.[REFUSED_ANNOTATION] === refused;
  if (carries && saysWhy && spec.persistentVolumeReclaimPolicy === "Retain") return undefined;
  const annotations = saysWhy ? {} : { annotations: { [REFUSED_ANNOTATION]: refused ?? null } };
  return { metadata: { labels, ...annotations }, spec: { persistentVolumeReclaimPolicy: "Retain" } };
}

/** Why this volume cannot be a member; undefined: it can. */
export function unfitVolume(volume: PersistentVolume, claim: PersistentVolumeClaim): string | undefined {
  const { name } = volume.metadata;
  if (volume.spec.claimRef?.uid !== claim.metadata.uid)
    return `PersistentVolume ${name} and claim ${claim.metadata.name} do not name each other`;
  if (volume.spec.csi === undefined)
    return `PersistentVolume ${name} of class ${claim.spec.storageClassName} is of no CSI driver`;
  if (volume.spec.volumeMode !== "Block") return `PersistentVolume ${name} is not a block device`;
  return undefined;
}
