// Where a member is to be made and attached, and what its node has reported of it: gathered for planMember, partly from the API server.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { MemberFacts } from "./member-facts.ts";
import { memberNode, strandedVolume } from "./member-node.ts";
import type { MemberPlace } from "./plan-member.ts";

/** `all`: of the same layout, `facts` among them. Throws KubeError. */
export async function gatherPlace(
  client: KubeClient,
  layout: FilesystemLayout,
  facts: MemberFacts,
  all: readonly MemberFacts[],
): Promise<MemberPlace> {
  const { spec, status } = layout;
  const { member, claim, volume } = facts;
  const reported = status?.members?.find(({ name, state }) => name === member.name && state === "Present");
  // Of those that are members already: one that is out of their reach is none.
  const others = all.flatMap((one) => (one !== facts && one.member.source.claim?.uid && one.volume) || []);
  const isNew = member.source.claim?.uid === undefined;
  const isPending = isNew && claim?.spec.volumeName === undefined;
  return {
    volumeUID: spec.volumeUID ?? "",
    nodeName: spec.nodeName,
    selectedNode: isPending ? await memberNode(client, layout, others) : undefined,
    stranded: isNew && volume ? await strandedVolume(client, volume, others, spec.nodeName) : undefined,
    deviceBytes: reported === undefined ? undefined : parseQuantity(reported.size),
  };
}
