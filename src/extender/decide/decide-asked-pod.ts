// Whether a question is about a pod that is there as it says. Any client of the port may send any question: only the pod's name and UID are
// believed, and everything else is taken from the pod as it was seen. Pure.
import type { Pod } from "../../contracts/kubernetes/resources.ts";
import { type ClaimingPod, claimsOf, type Unplaceable } from "./decide-demand.ts";
import { hasEnded } from "./decide-reservation.ts";

/** NotSeen: it may be in a moment. NotAsAsked: it has a node, or has ended, or has other claims: no scheduler asks about it like that. */
export type Recognised = Pod | "NotSeen" | "NotAsAsked";

/** `seen`: what is there under the name that is asked about. One of another UID may be its predecessor. */
export function recognise(asked: ClaimingPod, seen: Pod | undefined): Recognised {
  if (seen === undefined || asked.metadata.uid === undefined || seen.metadata.uid !== asked.metadata.uid)
    return "NotSeen";
  const isUnbound = !seen.spec.nodeName && !hasEnded(seen);
  return isUnbound && claimsText(seen) === claimsText(asked) ? seen : "NotAsAsked";
}

function claimsText(pod: ClaimingPod): string {
  return JSON.stringify(claimsOf(pod).map(({ name, isEphemeral }) => [name, isEphemeral]));
}

/** The same for each of them, and without a word of any claim: a stranger learns nothing by it. */
export const NOT_THERE: Unplaceable = {
  sentence: "the pod is not seen by Tidemark yet, or is not as it is asked about; it is tried again",
  mayPass: true,
};
