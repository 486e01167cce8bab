// The ordered teardown of a whole span volume: every attachment first, then each member. It needs no layout: whatever carries the
// volume's labels is part of it, so that nothing is left of a volume whose layout was lost.
import { MEMBER_LABEL, MEMBER_NAMESPACE, RECORDS } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../kube/resources.ts";
import { type Placing, UnsafeHomeError } from "./member-home.ts";
import { releaseKeptVolumes } from "./release-kept-volumes.ts";
import { describeAttachment, detach, tearDownMember } from "./tear-down-member.ts";

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

/** As tearDownSpan, and volumes that are kept for claims that are gone: only where the volume itself is deleted. */
export async function deleteSpanMembers(
  placing: Placing,
  handle: string,
  volumeUID: string,
): Promise<string | undefined> {
  const left = await tearDownSpan(placing.client, handle, volumeUID);
  return left ?? unlessChanged("a kept volume", () => releaseKeptVolumes(placing, handle, volumeUID));
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
