// Everything that is decided on about one volume, read from the caches at once. What looks lost there is read again
// from the API server before the operator acts on it: a lagging cache proves no loss.
import { FILESYSTEMS, type Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { type KubeObject, objectKey } from "../../contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { OwnWrites } from "../../platform/kube/client/writes.ts";
import { readLayout } from "../apply/volume-objects.ts";
import { isBlank } from "../decide/layout-facts.ts";
import { countOn } from "../decide/members/changed-members.ts";
import { labelledHandle, memberIndex } from "../volumes/member-objects.ts";
import { type ClaimIdentity, claimIdentityOf } from "../volumes/volume-record.ts";
import type { VolumeCaches } from "./volume-caches.ts";

export interface VolumeFacts {
  readonly handle: string;
  readonly layout: FilesystemLayout | undefined;
  /** The Filesystem of the volume's own claim; one of an earlier or later claim of the same name does not count. */
  readonly filesystem: Filesystem | undefined;
  readonly persistentVolume: PersistentVolume | undefined;
  /** Of others that name the same handle. */
  readonly rivals: readonly string[];
}

/** The same, and the claims, fresh from the API server. */
export interface LiveVolumeFacts extends VolumeFacts {
  /** The one that the PersistentVolume names. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** What is there under the name of the claim that the layout names, where that is another one. */
  readonly formerClaim: PersistentVolumeClaim | undefined;
  /** Of a span whose layout is lost. */
  readonly members: FoundMembers | undefined;
}

/** `ownWrites`: of Filesystems, which the caches may not show yet. */
export function gatherFacts(caches: VolumeCaches, ownWrites: OwnWrites<Filesystem>, handle: string): VolumeFacts {
  const cached = caches.layouts.store.get(handle);
  const layout = cached && isBlank(cached) ? undefined : cached;
  const [persistentVolume, ...others] = caches.persistentVolumes.store.byIndex("handle", handle);
  const claim = claimOf(layout, persistentVolume);
  const filesystem = claim && caches.filesystems.store.get(objectKey(claim));
  const rivals = others.map(({ metadata }) => metadata.name);
  const own = ownWrites.latest(ownFilesystem(filesystem, claim));
  return { handle, layout, persistentVolume, rivals, filesystem: own };
}

export async function gatherLiveFacts(client: KubeClient, facts: VolumeFacts): Promise<LiveVolumeFacts> {
  const [layout, persistentVolume] = await Promise.all([
    readLayout(client, facts.handle),
    facts.persistentVolume && client.get(PERSISTENT_VOLUMES, { name: facts.persistentVolume.metadata.name }),
  ]);
  const identity = claimOf(layout, persistentVolume);
  const bound = persistentVolume && claimIdentityOf(persistentVolume);
  const claimNamed = (of: ClaimIdentity | undefined) =>
    of && client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: of.namespace, name: of.name });
  const [filesystem, claim, formerClaim, members] = await Promise.all([
    identity && client.get(FILESYSTEMS, { namespace: identity.namespace, name: identity.name }),
    claimNamed(bound ?? identity),
    identity?.uid === bound?.uid ? undefined : claimNamed(identity),
    layout === undefined && persistentVolume ? findMembers(client, persistentVolume) : undefined,
  ]);
  const own = ownFilesystem(filesystem, identity);
  return { ...facts, layout, persistentVolume, claim, formerClaim, filesystem: own, members };
}

function claimOf(
  layout: FilesystemLayout | undefined,
  persistentVolume: PersistentVolume | undefined,
): ClaimIdentity | undefined {
  const { namespace, name, uid } = layout?.spec.claimRef ?? {};
  if (namespace !== undefined && name !== undefined && uid !== undefined) return { namespace, name, uid };
  return persistentVolume && claimIdentityOf(persistentVolume);
}

function ownFilesystem(filesystem: Filesystem | undefined, claim: ClaimIdentity | undefined): Filesystem | undefined {
  return filesystem?.spec.claimRef?.uid === claim?.uid ? filesystem : undefined;
}

export interface FoundMember {
  readonly claim: PersistentVolumeClaim;
  readonly volume: PersistentVolume | undefined;
}

export interface FoundMembers {
  readonly members: readonly FoundMember[];
  /** None twice. */
  readonly nodeNames: readonly string[];
  /** Above the number of every member that any object still names, also of members that are gone. */
  readonly nextMember: number;
}

/**
 * What is left of a span volume whose layout is lost: the claims that carry its labels, and the nodes where the volume itself or a member is
 * attached. Read from the API server, since a record is made of it.
 */
export async function findMembers(client: KubeClient, persistentVolume: PersistentVolume): Promise<FoundMembers> {
  const handle = persistentVolume.spec.csi?.volumeHandle;
  const uid = persistentVolume.spec.csi?.volumeAttributes?.[RECORDS.volumeUID] ?? "";
  const select = { namespace: MEMBER_NAMESPACE, labelSelector: `${RECORDS.volumeUID}=${uid}` };
  const [claims, attachments, volumes] = await Promise.all([
    client.list(PERSISTENT_VOLUME_CLAIMS, select),
    client.list(VOLUME_ATTACHMENTS),
    client.list(PERSISTENT_VOLUMES, { labelSelector: select.labelSelector }),
  ]);
  const members: FoundMember[] = [];
  for (const claim of claims.items.filter((one) => labelledHandle(one) === handle)) {
    const { volumeName } = claim.spec;
    const volume = volumeName ? await client.get(PERSISTENT_VOLUMES, { name: volumeName }) : undefined;
    members.push({ claim, volume });
  }
  // csi-attacher's own VolumeAttachment shows where the volume is published, also where no member has to be attached.
  const own = attachments.items.filter(
    (one) => labelledHandle(one) === handle || one.spec.source.persistentVolumeName === persistentVolume.metadata.name,
  );
  const named = [...claims.items, ...volumes.items, ...own].filter((one) => labelledHandle(one) === handle);
  const nextMember = Math.max(0, ...named.flatMap((one) => [countOn(one), indexOn(one) + 1]));
  return { members, nodeNames: [...new Set(own.map(({ spec }) => spec.nodeName))], nextMember };
}

/** -1: the object is not a member's. */
function indexOn({ metadata }: KubeObject): number {
  return memberIndex(metadata.labels?.[MEMBER_LABEL] ?? "") ?? -1;
}
