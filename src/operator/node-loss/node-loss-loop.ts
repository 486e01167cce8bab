// What becomes of claims whose volume is on a lost node, while this replica leads. Claims that ask for it by annotation
// are deleted; the others only get an event. The caches only say where to look: node and claim are read from the API
// server right before.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import {
  NODES,
  type Node,
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolumeClaim,
} from "../../contracts/kubernetes/resources.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Outcome } from "../../platform/kube/queue/work-queue.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { VolumeCaches } from "../gather/volume-caches.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import {
  decideClaimDeletion,
  describeLoss,
  lossOf,
  type NodeLoss,
  nodeOfLocal,
  wantsDeletion,
} from "./decide-node-loss.ts";

export interface NodeLossHandling {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "nodes" | "onNodeLossChange">;
  readonly claims: Reflector<PersistentVolumeClaim>;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
  /** How long a node must have been lost before a claim is deleted. */
  readonly delayMs: number;
}

const CONCURRENCY = 4;

export function createNodeLossLoop(handling: NodeLossHandling, synced: Promise<void>, log: Logger): Duty {
  const { caches, claims, clock } = handling;
  const delay = createLossDelay(caches.nodes, clock, handling.delayMs);
  const queue = createLedQueue(
    { synced, keys: () => caches.layouts.store.list().map(({ metadata }) => metadata.name) },
    { name: "node-loss", concurrency: CONCURRENCY, run: (handle) => handleLoss(handling, delay, handle), log },
  );
  const ofClaim = ({ metadata }: PersistentVolumeClaim): void => {
    for (const layout of caches.layouts.store.byIndex("claim-uid", metadata.uid ?? "")) queue.add(layout.metadata.name);
  };
  caches.onNodeLossChange(queue.add);
  caches.layouts.subscribe({ added: ({ metadata }) => queue.add(metadata.name) });
  claims.subscribe({ added: ofClaim, updated: ofClaim });
  return queue;
}

async function handleLoss(handling: NodeLossHandling, delay: LossDelay, handle: string): Promise<Outcome> {
  const { client, caches, events, metrics } = handling;
  const layout = caches.layouts.store.get(handle);
  const nodeName = layout && nodeOfLocal(layout);
  if (layout === undefined || nodeName === undefined) return "done";
  const loss = await liveLoss(client, caches, nodeName);
  const leftMs = delay.leftMs(nodeName, loss !== undefined);
  const claim = loss && (await claimOf(client, layout));
  if (loss === undefined || claim === undefined) return "done";
  if (wantsDeletion(claim) && leftMs > 0) return { againAfterMs: leftMs };
  const facts = { claim, what: describeLoss(nodeName, loss), ...countNodes(caches, delay.recentlyGone()) };
  const plan = decideClaimDeletion(facts);
  if (plan.do === "delete" && !(await deleteClaim(client, claim))) return "done";
  events.record(claim, "Warning", "NodeLost", plan.message);
  if (plan.do === "delete") metrics.lostNodeClaimDeleted();
  return plan.do === "hold" ? { againAfterMs: AGAIN_AFTER_MS.elsewhere } : "done";
}

/** A loss that the cache shows counts once the API server shows it, too. */
async function liveLoss(
  client: KubeClient,
  { nodes }: Pick<VolumeCaches, "nodes">,
  name: string,
): Promise<NodeLoss | undefined> {
  return lossOf(nodes.store.get(name)) && lossOf(await client.get(NODES, { name }));
}

function countNodes({ layouts, nodes }: Pick<VolumeCaches, "layouts" | "nodes">, recentlyGone: readonly string[]) {
  const there = nodes.store.list().map(({ metadata }) => metadata.name);
  const used = layouts.store.list().flatMap((layout) => nodeOfLocal(layout) ?? []);
  const knownNodes = new Set([...there, ...used, ...recentlyGone]);
  const lostNodes = new Set([...knownNodes].filter((name) => lossOf(nodes.store.get(name)) !== undefined));
  return { knownNodes, lostNodes };
}

/** The one that has the volume now; undefined: it is gone, or going. */
async function claimOf(client: KubeClient, { spec }: FilesystemLayout): Promise<PersistentVolumeClaim | undefined> {
  const { namespace, name, uid } = spec.claimRef ?? {};
  if (!namespace || !name) return undefined;
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  return claim?.metadata.uid === uid && claim?.metadata.deletionTimestamp === undefined ? claim : undefined;
}

/**
 * Deletes that very version of the claim as it was read, so that an annotation that a user has just removed counts.
 * False: the claim has changed, and its watch reports that.
 */
async function deleteClaim(client: KubeClient, { metadata }: PersistentVolumeClaim): Promise<boolean> {
  const { namespace, name, uid, resourceVersion } = metadata;
  const preconditions = { uid, resourceVersion };
  try {
    return await client.delete("node-loss/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, preconditions);
  } catch (error) {
    if (isKubeError(error, "Conflict")) return false;
    throw error;
  }
}

interface LossDelay {
  /** How long it must still stay lost; the time begins when it is asked for first. Not lost: the time is forgotten. */
  leftMs(nodeName: string, isLost: boolean): number;
  recentlyGone(): string[];
}

const RECENT_MS = 10 * 60_000;

/**
 * How long nodes have been lost, as this replica has seen it. A claim is deleted only after a delay, when it is clear how many nodes went with
 * its own. Nodes that left the cluster within RECENT_MS count, with or without volumes of ours.
 */
export function createLossDelay(
  nodes: Pick<Reflector<Node>, "subscribe">,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
  delayMs: number,
): LossDelay {
  const lostSinceMs = new Map<string, number>();
  // In the order of leaving: what is over stands first.
  const goneMs = new Map<string, number>();
  const isBack = ({ metadata }: Node): void => {
    goneMs.delete(metadata.name);
  };
  // A replica sees it whether it leads or not: a node that came back in between counts as newly lost the next time.
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
      if (!isLost) return delayMs;
      const sinceMs = lostSinceMs.get(nodeName) ?? monotonicMs();
      lostSinceMs.set(nodeName, sinceMs);
      return Math.max(0, sinceMs + delayMs - monotonicMs());
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
