// Why a member's claim is not bound yet: what its provisioner has said in Events, and whether it has asked for another node.
import { MEMBER_NAMESPACE, SELECTED_NODE } from "../../api/names.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { EVENTS, type Event, type PersistentVolumeClaim } from "../../kube/resources.ts";

export interface ClaimTrouble {
  /** The node has no room for it: its provisioner says so, or has sent the claim away from the node. */
  readonly exhausted: boolean;
  readonly message: string;
}

const EXHAUSTED = /resource\s?_?exhausted/i;

/** Undefined: nothing is known against it. */
export async function claimTrouble(
  client: KubeClient,
  claim: PersistentVolumeClaim,
): Promise<ClaimTrouble | undefined> {
  const { name, uid, annotations } = claim.metadata;
  const fieldSelector = `involvedObject.uid=${uid},type=Warning`;
  const events = (await client.list(EVENTS, { namespace: MEMBER_NAMESPACE, fieldSelector })).items;
  const said = events.toSorted((a, b) => timeOf(a) - timeOf(b)).at(-1)?.message;
  const exhausted = annotations?.[SELECTED_NODE] === undefined || EXHAUSTED.test(said ?? "");
  if (!exhausted && said === undefined) return undefined;
  const message = `member claim ${name} of class ${claim.spec.storageClassName}: ${said ?? "its provisioner wants another node"}`;
  return { exhausted, message };
}

function timeOf({ lastTimestamp, metadata }: Event): number {
  return Date.parse(lastTimestamp ?? metadata.creationTimestamp ?? "") || 0;
}
