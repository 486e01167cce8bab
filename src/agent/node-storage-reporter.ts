// Tells the API server what this node has for members, on its NodeStorage: once at the start, then whenever the figure has
// changed by a hundredth. Nothing on this node depends on it, so what fails is tried again at the next look.

import { API_VERSION, FIELD_MANAGERS } from "../api/names.ts";
import { NODE_STORAGES } from "../api/node-storage.ts";
import type { KubeClient } from "../kube/client.ts";
import type { Logger } from "../process/log.ts";
import { formatQuantity, MIB } from "../units/quantity.ts";
import type { Storage } from "./storage/storage.ts";
import { withTimeLimit } from "./time-limit.ts";

export interface NodeStorageParts {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, "apply">;
  readonly storage: Pick<Storage, "freeBytes">;
  readonly log: Logger;
}

const LOOK_INTERVAL_MS = 10_000;
const FREE_LIMIT_MS = 5000;
const TOLD_CHANGE_RATIO = 0.01;
const APPLY = { fieldManager: FIELD_MANAGERS.agent, force: true } as const;

export function startNodeStorageReporter(parts: NodeStorageParts): { stop(): Promise<void> } {
  let toldBytes: number | undefined;
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const measured = withTimeLimit(parts.storage.freeBytes(), FREE_LIMIT_MS, "measuring free bytes for members");
    const freeBytes = wholeMebibytes(await measured);
    if (toldBytes !== undefined && !isWorthTelling(toldBytes, freeBytes)) return;
    await tell(parts, freeBytes, toldBytes === undefined);
    toldBytes = freeBytes;
  };
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

export function isWorthTelling(toldBytes: number, freeBytes: number): boolean {
  return Math.abs(freeBytes - toldBytes) > toldBytes * TOLD_CHANGE_RATIO;
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
