// Whether the claim of a volume whose node is lost is deleted, so that its StatefulSet makes a new one elsewhere. Pure. It must say so
// itself; and while many nodes look lost at once it is more likely that something is wrong with what we see.
import { ON_NODE_LOSS_ANNOTATION } from "../../api/names.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";

/** Of the nodes that are known; one alone may always be lost, unless it is the only one. */
const LOST_RATIO_LIMIT = 0.2;

export interface LossFacts {
  readonly claim: PersistentVolumeClaim;
  /** "node n1 is out of service". */
  readonly what: string;
  /** Nodes that are there, and nodes that are lost. */
  readonly knownNodes: ReadonlySet<string>;
  readonly lostNodes: ReadonlySet<string>;
}

export type ClaimPlan =
  | { readonly do: "delete" | "keep"; readonly message: string }
  /** It says that it is to be deleted, and is not yet. */
  | { readonly do: "hold"; readonly message: string };

export function wantsDeletion({ metadata }: PersistentVolumeClaim): boolean {
  return metadata.annotations?.[ON_NODE_LOSS_ANNOTATION] === "Delete";
}

export function decideClaimDeletion({ claim, what, knownNodes, lostNodes }: LossFacts): ClaimPlan {
  if (!wantsDeletion(claim))
    return {
      do: "keep",
      message: `${what}, and the volume's data is there alone: it is found again when the node returns. Where the data can be done without, delete the claim (the annotation ${ON_NODE_LOSS_ANNOTATION}: Delete has that done)`,
    };
  const limit = Math.max(1, Math.floor(knownNodes.size * LOST_RATIO_LIMIT));
  if (lostNodes.size > limit || lostNodes.size >= knownNodes.size)
    return {
      do: "hold",
      message: `${what}, and the claim is not deleted yet although it says so: ${lostNodes.size} of ${knownNodes.size} nodes look lost (${someOf(lostNodes)}), more than ${limit} at once. Delete it yourself if that is so, and the claims of nodes that never return`,
    };
  return { do: "delete", message: `${what}: the claim is deleted, as its annotation ${ON_NODE_LOSS_ANNOTATION} says` };
}

const NAMED_LIMIT = 5;

function someOf(names: ReadonlySet<string>): string {
  const sorted = [...names].sort();
  return sorted.length <= NAMED_LIMIT ? sorted.join(", ") : `${sorted.slice(0, NAMED_LIMIT).join(", ")}, …`;
}
