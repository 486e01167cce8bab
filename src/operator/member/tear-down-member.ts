// R5 and R6: what is left of a member that is out of its filesystem, or whose volume is deleted, goes in this order: attachments,
// the volume's Retain, the claim. Everything is read from the API server: a cache that lags must not cost a volume in use.
import { MEMBER_LABEL, RECORDS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../kube/resources.ts";
import { labelledHandle, memberClaimName } from "./member-names.ts";

export interface DepartingMember {
  readonly handle: string;
  readonly volumeUID: string;
  readonly name: string;
  /** Of its claim, where that is recorded: another claim of the same name is left alone. */
  readonly claimUID: string | undefined;
  /** What its driver calls its volume, where that is recorded: no other one is let go. */
  readonly volumeHandle: string | undefined;
}

/** One pass. Undefined: nothing of it is left; else what it waits for. Throws KubeError. */
export async function tearDownMember(client: KubeClient, member: DepartingMember): Promise<string | undefined> {
  const attachments = await detach(client, member.volumeUID, ({ metadata }) => isOf(metadata.labels, member.name));
  if (attachments.length > 0) return attachments.map(describeAttachment).join(", ");
  const claimName = memberClaimName(member.handle, member.name);
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, claimName);
  if (claim === undefined || !isMembersClaim(claim, member)) return undefined;
  const foreign = await releaseVolume(client, claim, member);
  if (foreign !== undefined) return foreign;
  const { uid, resourceVersion, deletionTimestamp } = claim.metadata;
  if (deletionTimestamp === undefined)
    await client.delete("remove-member/delete-claim", PERSISTENT_VOLUME_CLAIMS, claimName, { uid, resourceVersion });
  const left = await client.get(PERSISTENT_VOLUME_CLAIMS, claimName);
  return left === undefined ? undefined : `claim ${claimName.namespace}/${claimName.name} to go`;
}

/** Asks the chosen attachments of a volume's members to go, and returns those that are not gone yet. */
export async function detach(
  client: KubeClient,
  volumeUID: string,
  isChosen: (attachment: VolumeAttachment) => boolean,
): Promise<VolumeAttachment[]> {
  const chosen = (await attachmentsOf(client, volumeUID)).filter(isChosen);
  if (chosen.length === 0) return [];
  for (const { metadata } of chosen) {
    if (metadata.deletionTimestamp !== undefined) continue;
    await client.delete("detach/attachment", VOLUME_ATTACHMENTS, { name: metadata.name }, { uid: metadata.uid });
  }
  return (await attachmentsOf(client, volumeUID)).filter(isChosen);
}

export async function attachmentsOf(client: KubeClient, volumeUID: string): Promise<VolumeAttachment[]> {
  const labelSelector = `${RECORDS.volumeUID}=${volumeUID}`;
  return (await client.list(VOLUME_ATTACHMENTS, { labelSelector })).items;
}

export function describeAttachment({ metadata, spec, status }: VolumeAttachment): string {
  const error = status?.detachError?.message;
  return `VolumeAttachment ${metadata.name} of ${spec.attacher} to node ${spec.nodeName} to go${error === undefined ? "" : ` (${error})`}`;
}

/** What the claim is bound to goes with the claim from now on; returns why it does not. */
async function releaseVolume(
  client: KubeClient,
  { metadata, spec }: PersistentVolumeClaim,
  { volumeHandle }: DepartingMember,
): Promise<string | undefined> {
  const volume = spec.volumeName ? await client.get(PERSISTENT_VOLUMES, { name: spec.volumeName }) : undefined;
  if (volume === undefined) return undefined;
  const { csi, claimRef } = volume.spec;
  if (claimRef?.uid === undefined && claimRef?.namespace === metadata.namespace && claimRef?.name === metadata.name)
    return `claim ${metadata.name} to be bound to PersistentVolume ${volume.metadata.name}, which goes with it`;
  if (claimRef?.uid !== metadata.uid) return undefined;
  if (volumeHandle !== undefined && csi?.volumeHandle !== volumeHandle)
    return `claim ${metadata.name} is bound to volume ${csi?.volumeHandle}, and what was taken out is ${volumeHandle}; it stays`;
  if (volume.spec.persistentVolumeReclaimPolicy !== "Delete") await letGo(client, volume);
  return undefined;
}

/** It goes with its claim from now on, or at once where that is gone. */
export async function letGo(client: KubeClient, { metadata }: PersistentVolume): Promise<void> {
  const { name, uid, resourceVersion } = metadata;
  const patch = { metadata: { uid, resourceVersion }, spec: { persistentVolumeReclaimPolicy: "Delete" } };
  try {
    await client.mergePatch("remove-member/release-volume", PERSISTENT_VOLUMES, { name }, patch);
  } catch (error) {
    if (!isKubeError(error, "NotFound")) throw error;
  }
}

function isMembersClaim(claim: PersistentVolumeClaim, { handle, claimUID }: DepartingMember): boolean {
  return labelledHandle(claim) === handle && (claimUID === undefined || claim.metadata.uid === claimUID);
}

function isOf(labels: Record<string, string> | undefined, member: string): boolean {
  return labels?.[MEMBER_LABEL] === member;
}
