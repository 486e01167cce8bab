// R5 and R6: what is left of a member that is out of its filesystem, or whose volume is deleted, goes in this order: attachments,
// the volume's Retain, the claim. Everything is read from the API server: a cache that lags must not cost a volume in use.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout, type MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, NEXT_MEMBER_ANNOTATION, RECORDS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import { isOut, mountNodeOf } from "../decide/layout-facts.ts";
import { countOn, nextMemberOf } from "../decide/members/changed-members.ts";
import type { MemberCaches } from "../gather/member-facts.ts";
import { labelledHandle, memberClaimName } from "../volumes/member-objects.ts";

export interface DepartingMember {
  readonly handle: string;
  readonly volumeUID: string;
  readonly name: string;
  /** Of its claim, where that is recorded: another claim of the same name is left alone. */
  readonly claimUID: string | undefined;
  /** What its driver calls its volume, where that is recorded: no other volume is released. */
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

interface Departure {
  /** Names of members of which nothing is left. */
  readonly gone: ReadonlySet<string>;
  /** What the others wait for. */
  readonly waiting: readonly string[];
}

/**
 * Detaches members from where the volume is not published, and releases those that are out of the filesystem. One pass over all of them. Throws
 * KubeError.
 */
export async function removeMembers(
  client: KubeClient,
  caches: MemberCaches,
  layout: FilesystemLayout,
): Promise<Departure> {
  const orphans = await removeOrphans(client, caches, layout);
  const { gone, waiting } = await removeDeparted(client, layout);
  return { gone, waiting: [...orphans, ...waiting] };
}

/**
 * Releases members that are out of the filesystem, past the point of no return: one pass over all of them. It reads what each is recorded with
 * right before. Throws KubeError.
 */
export async function removeDeparted(client: KubeClient, layout: FilesystemLayout): Promise<Departure> {
  const gone = new Set<string>();
  const waiting: string[] = [];
  for (const { name } of departed(layout)) {
    const left = await removeMember(client, layout, name);
    if (left === undefined) gone.add(name);
    else waiting.push(`member ${name}: ${left}`);
  }
  return { gone, waiting };
}

function departed(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).filter((member) => isOut(layout, member));
}

async function removeMember(client: KubeClient, layout: FilesystemLayout, name: string): Promise<string | undefined> {
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name });
  if (live === undefined || live.metadata.uid !== layout.metadata.uid) return "the layout to be seen as it is";
  const still = departed(live).find((member) => member.name === name);
  if (still === undefined || live.spec.volumeUID === undefined) return "the layout to be seen as it is";
  const { uid, volumeHandle } = still.source.claim ?? {};
  try {
    await keepCount(client, live);
    return await tearDownMember(client, {
      handle: live.metadata.name,
      volumeUID: live.spec.volumeUID,
      name,
      claimUID: uid,
      volumeHandle,
    });
  } catch (error) {
    // The claim or its volume changed between reading and writing: the change itself brings the next pass.
    if (isKubeError(error, "Conflict")) return "its claim to be seen as it is";
    throw error;
  }
}

/**
 * Stores how many members a volume has ever had where it outlives the layout: on the claims of the members that stay. Without it a recreated
 * layout would give the name of a removed member, which a node may still hold, to a new one. So it comes before anything of a member is deleted.
 */
async function keepCount(client: KubeClient, layout: FilesystemLayout): Promise<void> {
  const { name: handle } = layout.metadata;
  const count = nextMemberOf(layout);
  for (const member of (layout.spec.members ?? []).filter((one) => !isOut(layout, one))) {
    const claimName = memberClaimName(handle, member.name);
    const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, claimName);
    if (claim === undefined || labelledHandle(claim) !== handle || countOn(claim) >= count) continue;
    const annotations = { [NEXT_MEMBER_ANNOTATION]: String(count) };
    await client.mergePatch("member/keep-count", PERSISTENT_VOLUME_CLAIMS, claimName, { metadata: { annotations } });
  }
}

/**
 * Detaches a volume's members from nodes where the volume is not published: what is left of a step that was under way when it was
 * unpublished. Never from a node that says that it has the volume mounted. Returns what it waits for. Throws KubeError.
 */
async function removeOrphans(
  client: KubeClient,
  caches: MemberCaches,
  { metadata: { name: handle }, spec: cached }: FilesystemLayout,
): Promise<string[]> {
  const seen = caches.attachments.store.byIndex("volume", handle);
  if (cached.volumeUID === undefined || seen.every(({ spec }) => spec.nodeName === cached.nodeName)) return [];
  // Before the layout is read: an attachment that is made after that belongs to a node that the volume was given to
  // since.
  const listed = new Set((await attachmentsOf(client, cached.volumeUID)).map(({ metadata }) => metadata.uid));
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (live === undefined || live.spec.volumeUID !== cached.volumeUID) return [];
  const { nodeName } = live.spec;
  const isMountedOn = (node: string): boolean => mountNodeOf(live) === node;
  const isOrphan = ({ metadata, spec }: VolumeAttachment): boolean =>
    listed.has(metadata.uid) && spec.nodeName !== nodeName && !isMountedOn(spec.nodeName);
  const left = await detach(client, cached.volumeUID, isOrphan);
  return left.map(({ spec }) => `to be detached from node ${spec.nodeName}`);
}
