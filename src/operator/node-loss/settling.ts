// How long nodes have been lost, as this replica has seen it: a claim is deleted only after a while, when it shows how many nodes went
// with its own. Those that have left the cluster a short while ago count, with or without volumes of ours.
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { Node } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import { lossOf } from "./lost-node.ts";

export interface Settling {
  /** How long it must still stay lost; the time begins when it is asked for first. Not lost: the time is forgotten. */
  leftMs(nodeName: string, isLost: boolean): number;
  recentlyGone(): string[];
}

const RECENT_MS = 10 * 60_000;

export function createSettling(
  nodes: Pick<Reflector<Node>, "subscribe">,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
  settleMs: number,
): Settling {
  const lostSinceMs = new Map<string, number>();
  // In the order of leaving: what is over stands first.
  const goneMs = new Map<string, number>();
  const isBack = ({ metadata }: Node): void => {
    goneMs.delete(metadata.name);
  };
  // Whoever leads sees it, and whoever does not: a node that came back in between is lost anew from the next time on.
  const isWell = (node: Node): void => {
    if (lossOf(node) === undefined) lostSinceMs.delete(node.metadata.name);
  };
  nodes.subscribe({
    added: (node) => {
      isBack(node);
      isWell(node);
    },
    updated: isWell,
    deleted: (node) => {
      isBack(node);
      goneMs.set(node.metadata.name, monotonicMs());
    },
  });
  return {
    leftMs: (nodeName, isLost) => {
      if (!isLost) lostSinceMs.delete(nodeName);
      if (!isLost) return settleMs;
      const sinceMs = lostSinceMs.get(nodeName) ?? monotonicMs();
      lostSinceMs.set(nodeName, sinceMs);
      return Math.max(0, sinceMs + settleMs - monotonicMs());
    },
    recentlyGone: () => {
      for (const [name, atMs] of goneMs) {
        if (atMs >= monotonicMs() - RECENT_MS) break;
        goneMs.delete(name);
      }
      return [...goneMs.keys()];
    },
  };
}
