// When a node counts as lost, and with it what lies on its disks; and whether the claim of such a volume is deleted, so that its
// StatefulSet makes a new one elsewhere. Pure. Either a user has said that the node is shut down, or the cluster no longer has it; one
// that only does not answer is not lost: its pods may run on. The claim must say itself that it may go; and while many nodes look lost at
// once it is more likely that something is wrong with what we see.
import { LOCAL } from "../../contracts/csi/driver.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { Node, PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import { ON_NODE_LOSS_ANNOTATION } from "../../contracts/names.ts";
import { isRemoving } from "../decide/layout-facts.ts";

/** Set by people, or by what they have put in charge, once a node is certainly down (Kubernetes' non-graceful node shutdown). */
const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";

export type NodeLoss = "gone" | "out of service";

/** Undefined: it is not lost. `node` undefined: the API server has none. */
export function lossOf(node: Node | undefined): NodeLoss | undefined {
  if (node === undefined) return "gone";
  return (node.spec?.taints ?? []).some(({ key }) => key === OUT_OF_SERVICE) ? "out of service" : undefined;
}

/** The node that has a volume's only data; undefined: it can go elsewhere, or is on its way out. */
export function nodeOfLocal(layout: FilesystemLayout): string | undefined {
  const isLocal = LOCAL.backends.some((backend) => backend === layout.spec.backend);
  return isLocal && !isRemoving(layout) ? layout.spec.nodeName : undefined;
}

export function describeLoss(nodeName: string, loss: NodeLoss): string {
  return loss === "gone" ? `node ${nodeName} is in the cluster no more` : `node ${nodeName} is out of service`;
}

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
      message: `${what}, with the only copy: it is back with the node. To give it up, delete the claim`,
    };
  const limit = Math.max(1, Math.floor(knownNodes.size * LOST_RATIO_LIMIT));
  if (lostNodes.size > limit || lostNodes.size >= knownNodes.size)
    return {
      do: "hold",
      message: `${what}; if it never returns, delete the claim yourself: ${lostNodes.size} of ${knownNodes.size} nodes look lost, above the limit of ${limit}`,
    };
  return { do: "delete", message: `${what}: the claim is deleted, as its annotation ${ON_NODE_LOSS_ANNOTATION} says` };
}
