// Whether the agent of each node is heard, by its pods: as kubelet and the control plane see them, or gone since a moment that only we saw.
import type { Pod } from "../../kube/resources.ts";
import { unheardSince } from "../decide/decide-node.ts";
import type { ClusterStores } from "./cluster-stores.ts";

export interface HeardAgents {
  /** A pod of the node's agent has changed, or is gone. */
  changed(nodeName: string, nowMs: number): void;
  /** Undefined: it is heard. */
  unheardSinceMs(nodeName: string): number | undefined;
  /** The node is gone, and so is all that an agent has said there. */
  forget(nodeName: string): void;
}

export function createHeardAgents({ pods }: Pick<ClusterStores, "pods">): HeardAgents {
  const goneMs = new Map<string, number>();
  return {
    changed: (nodeName, nowMs) => {
      if (pods.byIndex("agent", nodeName).length > 0) goneMs.delete(nodeName);
      else goneMs.set(nodeName, nowMs);
    },
    unheardSinceMs: (nodeName) => unheardSinceOf(pods.byIndex("agent", nodeName), goneMs.get(nodeName)),
    forget: (nodeName) => goneMs.delete(nodeName),
  };
}

/**
 * The best of several, as while one takes another's place. Where no agent runs as a pod nobody can tell, and nothing is held against the
 * node.
 */
function unheardSinceOf(agents: readonly Pod[], goneMs: number | undefined): number | undefined {
  if (agents.length === 0) return goneMs;
  const unheard = agents.map(unheardSince);
  return unheard.includes(undefined) ? undefined : Math.max(...unheard.map((sinceMs) => sinceMs ?? 0));
}
