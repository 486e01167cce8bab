// What becomes of claims whose volume is on a lost node, while this replica leads: those that say so are deleted, of the others people
// are told. The caches only say where to look: node and claim are read from the API server right before.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { Outcome } from "../../kube/queue/work-queue.ts";
import { NODES, PERSISTENT_VOLUME_CLAIMS, type PersistentVolumeClaim } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { decideClaimDeletion, wantsDeletion } from "./decide-claim-deletion.ts";
import { describeLoss, lossOf, type NodeLoss, nodeOfLocal } from "./lost-node.ts";
import { createSettling, type Settling } from "./settling.ts";

export interface NodeLossHandling {
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "nodes" | "onNodeLossChange">;
  readonly claims: Reflector<PersistentVolumeClaim>;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
  /** How long a node must have been lost before a claim is deleted. */
  readonly settleMs: number;
}

const CONCURRENCY = 4;
/** How many nodes are lost changes without a change of the volume. */
const HELD_RETRY_MS = 30_000;

export function createNodeLossLoop(handling: NodeLossHandling, synced: Promise<void>, log: Logger): Duty {
  const { caches, claims, clock } = handling;
  const settling = createSettling(caches.nodes, clock, handling.settleMs);
  const queue = createLedQueue(
    { synced, keys: () => caches.layouts.store.list().map(({ metadata }) => metadata.name) },
    { name: "node-loss", concurrency: CONCURRENCY, run: (handle) => handleLoss(handling, settling, handle), log },
  );
  const ofClaim = ({ metadata }: PersistentVolumeClaim): void => {
    for (const layout of caches.layouts.store.byIndex("claim-uid", metadata.uid ?? "")) queue.add(layout.metadata.name);
  };
  caches.onNodeLossChange(queue.add);
  caches.layouts.subscribe({ added: ({ metadata }) => queue.add(metadata.name) });
  claims.subscribe({ added: ofClaim, updated: ofClaim });
  return queue;
}

async function handleLoss(handling: NodeLossHandling, settling: Settling, handle: string): Promise<Outcome> {
  const { client, caches, events, metrics } = handling;
  const layout = caches.layouts.store.get(handle);
  const nodeName = layout && nodeOfLocal(layout);
  if (layout === undefined || nodeName === undefined) return "done";
  const loss = await liveLoss(client, caches, nodeName);
  const leftMs = settling.leftMs(nodeName, loss !== undefined);
  const claim = loss && (await claimOf(client, layout));
  if (loss === undefined || claim === undefined) return "done";
  if (wantsDeletion(claim) && leftMs > 0) return { againAfterMs: leftMs };
  const facts = { claim, what: describeLoss(nodeName, loss), ...countNodes(caches, settling.recentlyGone()) };
  const plan = decideClaimDeletion(facts);
  if (plan.do === "delete" && !(await deleteClaim(client, claim))) return "done";
  events.record(claim, "Warning", "NodeLost", plan.message);
  if (plan.do === "delete") metrics.lostNodeClaimDeleted();
  return plan.do === "hold" ? { againAfterMs: HELD_RETRY_MS } : "done";
}

/** What the cache shows is no loss before the API server says so. */
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

/** Of that very claim as it was read: an annotation that somebody has just taken away is heeded. False: it has changed, which is told. */
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
