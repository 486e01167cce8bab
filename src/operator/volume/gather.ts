// Everything that is decided on about one volume, read from the caches at once. What looks lost there is read again from
// the API server before anything is made of it: a cache that lags is no loss.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { objectKey } from "../../kube/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../kube/resources.ts";
import { type FoundMembers, findMembers } from "../member/find-members.ts";
import { isBlank } from "./layout-facts.ts";
import { readLayout } from "./new-layout.ts";
import type { VolumeCaches } from "./volume-caches.ts";
import { type ClaimIdentity, claimIdentityOf } from "./volume-record.ts";

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

export function gatherFacts(caches: VolumeCaches, handle: string): VolumeFacts {
  const cached = caches.layouts.store.get(handle);
  const layout = cached && isBlank(cached) ? undefined : cached;
  const [persistentVolume, ...others] = caches.persistentVolumes.store.byIndex("handle", handle);
  const claim = claimOf(layout, persistentVolume);
  const filesystem = claim && caches.filesystems.store.get(objectKey(claim));
  const rivals = others.map(({ metadata }) => metadata.name);
  return { handle, layout, persistentVolume, rivals, filesystem: ownFilesystem(filesystem, claim) };
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
