// Whether the clocks of nodes and the engine's agree, by the times on the agents' samples. Where they do not, the NodeStorage gets a
// Warning, once for each change of the difference. It stops nothing by itself; differenceOfClocks says what a decision makes of it.

import { NODE_STORAGES, type NodeStorage } from "../../contracts/kinds/node-storage.ts";
import { API_VERSION } from "../../contracts/names.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { Instant } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { differenceOfClocks, MAX_AHEAD_MS } from "../facts/measurements.ts";

export interface NodeClocks {
  /** The newest stamp of what a node sent, and when it came. */
  heard(nodeName: string, stampMs: number, at: Instant): void;
}

/** A network that holds a stream up makes a node's clock look behind, for as long. */
const LASTS_MS = 10_000;
/** Differences within this are one and the same: a clock drifts until it is set. */
const SAME_MS = MAX_AHEAD_MS;
/** A node that is gone is forgotten when this many others are known. */
const NODES_LIMIT = 10_000;

interface Heard {
  readonly aheadMs: number;
  /** On the monotonic clock: since when it differs by that. */
  readonly sinceMs: number;
}

/** The engine's leader reports; a replica that only watches does not. */
export function createNodeClocks(
  events: Pick<EventRecorder, "record">,
  isLeader: () => boolean,
  log: Logger,
): NodeClocks {
  const heard = new Map<string, Heard>();
  const warned = new Map<string, number>();
  const tell = (nodeName: string, aheadMs: number, difference: string): void => {
    const before = warned.get(nodeName);
    if (!isLeader() || (before !== undefined && isSame(before, aheadMs))) return;
    warned.set(nodeName, aheadMs);
    const message = `Set the clock of the node right (chrony, NTP): it ${difference}. Until then nothing on it shrinks; extends go on`;
    events.record(nodeStorage(nodeName), "Warning", "ClockDiffers", message);
    log.warn({ nodeName, aheadMs }, message);
  };
  return {
    heard: (nodeName, stampMs, { nowMs, monotonicMs }) => {
      const aheadMs = stampMs - nowMs;
      const difference = differenceOfClocks({ aheadMs });
      if (difference === undefined) {
        heard.delete(nodeName);
        warned.delete(nodeName);
        return;
      }
      const known = heard.get(nodeName);
      const since = known !== undefined && isSame(known.aheadMs, aheadMs) ? known : { aheadMs, sinceMs: monotonicMs };
      heard.set(nodeName, since);
      for (const oldest of heard.keys()) {
        if (heard.size <= NODES_LIMIT) break;
        heard.delete(oldest);
        warned.delete(oldest);
      }
      if (monotonicMs - since.sinceMs >= LASTS_MS) tell(nodeName, aheadMs, difference);
    },
  };
}

function isSame(aheadMs: number, otherMs: number): boolean {
  return Math.abs(aheadMs - otherMs) <= SAME_MS;
}

function nodeStorage(name: string): NodeStorage {
  return { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name } } as NodeStorage;
}
