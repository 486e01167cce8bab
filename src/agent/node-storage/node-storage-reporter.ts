// Tells the API server what this node has for members, on its NodeStorage: at the start, whenever a figure has changed that is worth it,
// and now and then anyway, since the object may have been deleted. Nothing on this node depends on it, so what fails is tried again at
// the next look.
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import { NODE_STORAGES, type NodeStorageStatus } from "../../api/node-storage.ts";
import type { DeviceClass } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { isKubeError } from "../../kube/kube-error.ts";
import type { CSINode } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { Storage } from "../storage/storage.ts";
import { nodeStorageStatus } from "./node-storage-status.ts";

export interface NodeStorageParts {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, "apply">;
  readonly storage: Pick<Storage, "freeBytes">;
  /** Undefined: the node has no lvmd, or it has not been heard yet. */
  readonly classes: () => readonly DeviceClass[] | undefined;
  readonly csiNode: () => CSINode | undefined;
  readonly ioUtilizationRatio: () => number | undefined;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

export interface NodeStorageReporter {
  /** Something may have changed: it is told within a second, with all that changes meanwhile. */
  changed(): void;
  stop(): Promise<void>;
}

/** Of loop's free bytes, which nobody tells. */
const LOOK_INTERVAL_MS = 10_000;
/** Between two writes at least. */
const SPACING_MS = 500;
/** Told anew although nothing has changed: an object that somebody deleted is missed no longer than this. */
const TELL_AGAIN_MS = 300_000;
const TOLD_CHANGE_RATIO = 0.01;
const APPLY = { fieldManager: FIELD_MANAGERS.agent, force: true } as const;

export function startNodeStorageReporter(parts: NodeStorageParts): NodeStorageReporter {
  const look = createNodeStorageReport(parts);
  let looking: Promise<void> | undefined;
  let soon: NodeJS.Timeout | undefined;
  const lookAgain = (): void => {
    soon = undefined;
    looking ??= look()
      .catch((err: unknown) => parts.log.warn({ err }, "what the node has for members is not reported"))
      .finally(() => {
        looking = undefined;
      });
  };
  const changed = (): void => {
    soon ??= setTimeout(() => {
      // What is being told may be older than the change.
      if (looking === undefined) lookAgain();
      else void looking.finally(lookAgain);
    }, SPACING_MS);
  };
  lookAgain();
  const timer = setInterval(lookAgain, LOOK_INTERVAL_MS);
  return {
    changed,
    stop: async () => {
      clearInterval(timer);
      clearTimeout(soon);
      await looking;
    },
  };
}

/** One look: measures, and tells what is worth telling. Rejects when either failed; the next look tries again. */
export function createNodeStorageReport(parts: NodeStorageParts): () => Promise<void> {
  let told: Told | undefined;
  return async () => {
    const loopFreeBytes = (await parts.storage.freeBytes()) ?? 0;
    const { classes, csiNode, ioUtilizationRatio } = parts;
    const facts = { classes: classes(), csiNode: csiNode(), ioUtilizationRatio: ioUtilizationRatio() };
    const others = JSON.stringify(nodeStorageStatus({ loopFreeBytes: 0, ...facts }));
    const now = { freeBytes: loopFreeBytes, others, atMs: parts.clock.monotonicMs() };
    if (told !== undefined && !isWorthTelling(told, now)) return;
    const status = nodeStorageStatus({ loopFreeBytes, ...facts });
    await tell(parts, status, told === undefined).catch((error: unknown) => {
      if (!isKubeError(error, "NotFound")) throw error;
      return tell(parts, status, true); // somebody has deleted it
    });
    told = now;
  };
}

interface Told {
  /** Of the node's own disk. */
  readonly freeBytes: number;
  /** All that is told beside it. */
  readonly others: string;
  /** Monotonic. */
  readonly atMs: number;
}

export function isWorthTelling(told: Told, now: Told): boolean {
  if (now.atMs - told.atMs >= TELL_AGAIN_MS || now.others !== told.others) return true;
  return Math.abs(now.freeBytes - told.freeBytes) > told.freeBytes * TOLD_CHANGE_RATIO;
}

async function tell(
  { nodeName, client }: NodeStorageParts,
  status: NodeStorageStatus,
  isFirst: boolean,
): Promise<void> {
  const identity = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name: nodeName } };
  if (isFirst) await client.apply("node-storage/object", NODE_STORAGES, { ...identity, spec: {} }, APPLY);
  await client.apply(
    "node-storage/status",
    NODE_STORAGES,
    { ...identity, status },
    { ...APPLY, subresource: "status" },
  );
}
