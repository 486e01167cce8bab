// Tells the API server what this node has for members, on its NodeStorage: at the start, whenever the figure has changed by a
// hundredth, and now and then anyway, since the object may have been deleted. Nothing on this node depends on it, so what fails
// is tried again at the next look.

import { API_VERSION, FIELD_MANAGERS } from "../api/names.ts";
import { NODE_STORAGES } from "../api/node-storage.ts";
import type { KubeClient } from "../kube/client.ts";
import { isKubeError } from "../kube/kube-error.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { formatQuantity, MIB } from "../units/quantity.ts";
import type { Storage } from "./storage/storage.ts";

export interface NodeStorageParts {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, "apply">;
  readonly storage: Pick<Storage, "freeBytes">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
}

const LOOK_INTERVAL_MS = 10_000;
/** Told anew although nothing has changed: an object that somebody deleted is missed no longer than this. */
const TELL_AGAIN_MS = 300_000;
const TOLD_CHANGE_RATIO = 0.01;
const APPLY = { fieldManager: FIELD_MANAGERS.agent, force: true } as const;

export function startNodeStorageReporter(parts: NodeStorageParts): { stop(): Promise<void> } {
  const look = createNodeStorageReport(parts);
  let looking: Promise<void> | undefined;
  const lookAgain = (): void => {
    looking ??= look()
      .catch((err: unknown) => parts.log.warn({ err }, "the node's free bytes are not reported"))
      .finally(() => {
        looking = undefined;
      });
  };
  lookAgain();
  const timer = setInterval(lookAgain, LOOK_INTERVAL_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      await looking;
    },
  };
}

/** One look: measures, and tells what is worth telling. Rejects when either failed; the next look tries again. */
export function createNodeStorageReport(parts: NodeStorageParts): () => Promise<void> {
  let told: Told | undefined;
  return async () => {
    const freeBytes = wholeMebibytes((await parts.storage.freeBytes()) ?? 0);
    const atMs = parts.clock.monotonicMs();
    if (told !== undefined && !isWorthTelling(told, { freeBytes, atMs })) return;
    await tell(parts, freeBytes, told === undefined).catch((error: unknown) => {
      if (!isKubeError(error, "NotFound")) throw error;
      return tell(parts, freeBytes, true); // somebody has deleted it
    });
    told = { freeBytes, atMs };
  };
}

interface Told {
  readonly freeBytes: number;
  /** Monotonic. */
  readonly atMs: number;
}

export function isWorthTelling(told: Told, now: Told): boolean {
  if (now.atMs - told.atMs >= TELL_AGAIN_MS) return true;
  return Math.abs(now.freeBytes - told.freeBytes) > told.freeBytes * TOLD_CHANGE_RATIO;
}

/** Down: nobody is promised more than there is. */
function wholeMebibytes(bytes: number): number {
  return Math.max(0, Math.floor(bytes / MIB)) * MIB;
}

async function tell({ nodeName, client }: NodeStorageParts, freeBytes: number, isFirst: boolean): Promise<void> {
  const identity = { apiVersion: API_VERSION, kind: NODE_STORAGES.kind, metadata: { name: nodeName } };
  if (isFirst) await client.apply("node-storage/object", NODE_STORAGES, { ...identity, spec: {} }, APPLY);
  const status = { deviceClasses: [{ name: "loop", backend: "loop", free: formatQuantity(freeBytes) }] };
  await client.apply(
    "node-storage/status",
    NODE_STORAGES,
    { ...identity, status },
    { ...APPLY, subresource: "status" },
  );
}
