// What is left of a span volume whose layout is lost: the claims that carry its labels, and the nodes where the volume itself or a
// member is attached. Read from the API server, since a record is made of it.
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { KubeObject } from "../../kube/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
} from "../../kube/resources.ts";
import { countOn } from "./member-count.ts";
import { labelledHandle, memberIndex } from "./member-names.ts";

export interface FoundMember {
  readonly claim: PersistentVolumeClaim;
  readonly volume: PersistentVolume | undefined;
}

export interface FoundMembers {
  readonly members: readonly FoundMember[];
  /** None twice. */
  readonly nodeNames: readonly string[];
  /** Above the number of every member that anything still tells of, those that are gone among them. */
  readonly nextMember: number;
}

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
  // csi-attacher's own tells where the volume is published, also where no member has to be attached.
  const own = attachments.items.filter(
    (one) => labelledHandle(one) === handle || one.spec.source.persistentVolumeName === persistentVolume.metadata.name,
  );
  const named = [...claims.items, ...volumes.items, ...own].filter((one) => labelledHandle(one) === handle);
  const nextMember = Math.max(0, ...named.flatMap((one) => [countOn(one), indexOn(one) + 1]));
  return { members, nodeNames: [...new Set(own.map(({ spec }) => spec.nodeName))], nextMember };
}

/** -1: it is no member's. */
function indexOn({ metadata }: KubeObject): number {
  return memberIndex(metadata.labels?.[MEMBER_LABEL] ?? "") ?? -1;
}
