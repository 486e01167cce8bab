// How many members a volume has ever had, kept where it outlives the layout: on the claims of the members that stay. Without it a
// layout that is made again would give a name of a removed member to a new one, which a node may still hold for the old.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { NEXT_MEMBER_ANNOTATION } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { KubeObject } from "../../kube/object.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../kube/resources.ts";
import { isOut } from "../volume/layout-facts.ts";
import { nextMemberOf } from "./decide-members.ts";
import { labelledHandle, memberClaimName } from "./member-names.ts";

/** What an object says that the next member is; 0 where it says nothing. */
export function countOn({ metadata }: KubeObject): number {
  const count = Number(metadata.annotations?.[NEXT_MEMBER_ANNOTATION] ?? 0);
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** Before anything of a member is deleted: from then on its name stands nowhere else. Throws KubeError. */
export async function keepCount(client: KubeClient, layout: FilesystemLayout): Promise<void> {
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
