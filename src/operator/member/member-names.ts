// How a member is named: its claim, its VolumeAttachment on a node, and the labels that say whose it is. Pure. All follow from
// volume and member, so that a repeated step meets what an earlier one made, and no name is ever used for another member.
import { createHash } from "node:crypto";
import { fsidOf, volumeHandleOf, volumeUIDOf } from "../../api/identity.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../api/names.ts";
import type { KubeObject, ObjectName } from "../../kube/object.ts";

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

/** The handle of the volume that an object belongs to by its labels; undefined: it is no member's. */
export function labelledHandle({ metadata }: KubeObject): string | undefined {
  const uid = metadata.labels?.[RECORDS.volumeUID] ?? "";
  const handle = volumeHandleOf(uid);
  const member = metadata.labels?.[MEMBER_LABEL] ?? "";
  return volumeUIDOf(handle) !== undefined && memberIndex(member) !== undefined ? handle : undefined;
}
