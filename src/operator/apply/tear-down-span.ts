// The ordered teardown of a whole span volume: every attachment first, then each member. It needs no layout: whatever carries the
// volume's labels is part of it, so that nothing is left of a volume whose layout was lost.
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
} from "../../contracts/kubernetes/resources.ts";
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import { labelledHandle, memberClaimName, memberLabels } from "../volumes/member-objects.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { restoreClaims } from "./rebuild-volume.ts";
import { describeAttachment, detach, letGo, tearDownMember } from "./remove-members.ts";

/** One pass. Undefined: nothing is left; else what it waits for. Throws KubeError. */
export async function tearDownSpan(client: KubeClient, handle: string, volumeUID: string): Promise<string | undefined> {
  const attached = await detach(client, volumeUID, () => true);
  if (attached.length > 0) return attached.map(describeAttachment).join(", ");
  const labelSelector = `${RECORDS.volumeUID}=${volumeUID}`;
  const claims = await client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, labelSelector });
  const left: string[] = [];
  for (const { metadata } of claims.items) {
    const name = metadata.labels?.[MEMBER_LABEL] ?? "";
    const member = { handle, volumeUID, name, claimUID: metadata.uid, volumeHandle: undefined };
    const waiting = await unlessChanged(`member ${name}`, () => tearDownMember(client, member));
    if (waiting !== undefined) left.push(waiting);
  }
  return left.length === 0 ? undefined : left.join(", ");
}

/**
 * As tearDownSpan; also releases volumes that are retained for claims that are gone. Only where the volume itself is
 * deleted.
 */
export async function deleteSpanMembers(
  placing: Placing,
  handle: string,
  volumeUID: string,
): Promise<string | undefined> {
  const left = await tearDownSpan(placing.client, handle, volumeUID);
  return left ?? unlessChanged("a retained volume", () => releaseKeptVolumes(placing, handle, volumeUID));
}

async function unlessChanged(what: string, step: () => Promise<string | undefined>): Promise<string | undefined> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof UnsafeHomeError) return error.message;
    if (isKubeError(error, "Conflict")) return `${what} to be seen as it is`;
    throw error;
  }
}

/**
 * Releases what a teardown by members' claims would leave behind: volumes that are retained for claims that were deleted, carry the records
 * of this very volume, and belong to no other claim by now. One pass over a volume of which no claim is left and nothing is attached. Undefined: no PersistentVolume is retained
 * for it; else what it waits for. Throws KubeError, and UnsafeHomeError.
 */
async function releaseKeptVolumes(placing: Placing, handle: string, volumeUID: string): Promise<string | undefined> {
  const { client } = placing;
  const { items } = await client.list(PERSISTENT_VOLUMES, { labelSelector: `${RECORDS.volumeUID}=${volumeUID}` });
  const left: string[] = [];
  for (const volume of items.filter((one) => isKeptFor(one, handle, volumeUID))) {
    const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, claimNameOf(volume, handle));
    if (claim === undefined && volume.spec.claimRef?.uid !== undefined) await letGo(client, volume);
    else if (claim === undefined || labelledHandle(claim) === handle) left.push(volume.metadata.name);
  }
  if (left.length === 0) return undefined;
  // No process deletes a volume that no claim was ever bound to: it waits for a claim, and goes with that.
  await restoreClaims(placing, handle);
  return `PersistentVolume ${left.join(", ")} to be bound again and released`;
}

function isKeptFor(volume: PersistentVolume, handle: string, volumeUID: string): boolean {
  const { metadata, spec } = volume;
  const records = Object.entries(memberLabels(volumeUID, metadata.labels?.[MEMBER_LABEL] ?? ""));
  const carries =
    labelledHandle(volume) === handle && records.every(([key, value]) => metadata.labels?.[key] === value);
  const { namespace, name } = claimNameOf(volume, handle);
  const isMembers = spec.claimRef?.namespace === namespace && spec.claimRef.name === name;
  const isKept = metadata.deletionTimestamp === undefined && spec.persistentVolumeReclaimPolicy === "Retain";
  return carries && isMembers && isKept;
}

function claimNameOf({ metadata }: PersistentVolume, handle: string): ReturnType<typeof memberClaimName> {
  return memberClaimName(handle, metadata.labels?.[MEMBER_LABEL] ?? "");
}
