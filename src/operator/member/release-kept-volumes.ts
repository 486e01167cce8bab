// What a teardown that goes by members' claims would leave behind: volumes that are kept (Retain) for claims which somebody has deleted.
// Only those that carry the records of this very volume, and are no other claim's by now, are let go.
import { MEMBER_LABEL, RECORDS } from "../../api/names.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, type PersistentVolume } from "../../kube/resources.ts";
import type { Placing } from "./member-home.ts";
import { labelledHandle, memberClaimName, memberLabels } from "./member-names.ts";
import { restoreClaims } from "./restore-claims.ts";
import { letGo } from "./tear-down-member.ts";

/**
 * One pass, of a volume of which no claim is left and nothing is attached. Undefined: nothing is kept for it any more; else what it waits
 * for. Throws KubeError, and UnsafeHomeError.
 */
export async function releaseKeptVolumes(
  placing: Placing,
  handle: string,
  volumeUID: string,
): Promise<string | undefined> {
  const { client } = placing;
  const { items } = await client.list(PERSISTENT_VOLUMES, { labelSelector: `${RECORDS.volumeUID}=${volumeUID}` });
  const left: string[] = [];
  for (const volume of items.filter((one) => isKeptFor(one, handle, volumeUID))) {
    const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, claimNameOf(volume, handle));
    if (claim === undefined && volume.spec.claimRef?.uid !== undefined) await letGo(client, volume);
    else if (claim === undefined || labelledHandle(claim) === handle) left.push(volume.metadata.name);
  }
  if (left.length === 0) return undefined;
  // A volume that no claim was ever bound to is deleted by nobody: it waits for one, and goes with that.
  await restoreClaims(placing, handle);
  return `PersistentVolume ${left.join(", ")} to be bound again, and let go of`;
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
