// Writes the Filesystem of a claim, in CreateVolume and when it was lost.
import { FILESYSTEMS, type Filesystem } from "../../api/filesystem.ts";
import { FIELD_MANAGERS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { filesystemOf } from "./layout-fields.ts";
import type { ClaimIdentity } from "./volume-record.ts";

/**
 * Idempotent. A Filesystem of an earlier claim of this name, or one restored from a backup, carries a target that was never
 * decided for this volume: it goes first, which loses no data. Throws KubeError.
 */
export async function writeFilesystem(
  client: KubeClient,
  claim: ClaimIdentity,
  ownedByClaim: boolean,
): Promise<Filesystem> {
  const existing = await client.get(FILESYSTEMS, { namespace: claim.namespace, name: claim.name });
  if (existing !== undefined && existing.spec.claimRef?.uid !== claim.uid)
    await client.delete("write-filesystem/delete-former", FILESYSTEMS, existing.metadata, {
      uid: existing.metadata.uid,
    });
  return client.apply("write-filesystem/apply", FILESYSTEMS, filesystemOf(claim, ownedByClaim), {
    fieldManager: FIELD_MANAGERS.operator,
    force: true,
  });
}
