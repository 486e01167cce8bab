// One Lease with optimistic locking, as the API server keeps it, over a slow and lossy network that a test controls.

import type { Lease } from "../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../src/platform/kube/client/client.ts";
import { KubeError } from "../../src/platform/kube/kube-error.ts";
import { servedClient } from "./served-client.ts";

/** How long a request travels, how long its answer does, and whether that gets lost. */
export interface Journey {
  readonly requestMs: number;
  readonly answerMs: number;
  readonly answerLost?: boolean;
}

export const PROMPT: Journey = { requestMs: 0, answerMs: 0 };

export interface LeaseServer {
  /** A client of its own for each candidate; `journey` is asked for each request. */
  client(journey?: () => Journey): KubeClient;
  lease(): Lease | undefined;
  /** Somebody else's change, past all locking. */
  put(lease: Lease | undefined): void;
}

export function createLeaseServer(): LeaseServer {
  let stored: Lease | undefined;
  let version = 0;
  const write = (lease: Lease): Lease => {
    version += 1;
    stored = { ...structuredClone(lease), metadata: { ...lease.metadata, resourceVersion: String(version) } };
    return structuredClone(stored);
  };
  const update = (lease: Lease): Lease => {
    if (stored === undefined) throw new KubeError("NotFound", 404, "no such Lease");
    if (stored.metadata.resourceVersion !== lease.metadata.resourceVersion)
      throw new KubeError("Conflict", 409, "the Lease has been modified");
    return write(lease);
  };
  const create = (lease: Lease): Lease => {
    if (stored !== undefined) throw new KubeError("AlreadyExists", 409, "the Lease already exists");
    return write(lease);
  };
  return {
    lease: () => structuredClone(stored),
    put: (lease) => {
      if (lease === undefined) stored = undefined;
      else write(lease);
    },
    client: (journey = () => PROMPT) => {
      const travel = async <T>(serve: () => T): Promise<T> => {
        const { requestMs, answerMs, answerLost } = journey();
        await sleep(requestMs);
        const answer = settled(serve);
        await sleep(answerMs);
        if (answerLost === true) throw new KubeError("Unreachable", 0, "the answer was lost");
        return answer();
      };
      return servedClient({
        get: () => travel(() => structuredClone(stored)),
        create: (_point, _resource, lease) => travel(() => create(lease as Lease)),
        update: (_point, _resource, lease) => travel(() => update(lease as Lease)),
      });
    },
  };
}

/** Runs now; returns or throws the result later. */
function settled<T>(serve: () => T): () => T {
  try {
    const result = serve();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function sleep(delayMs: number): Promise<void> {
  return delayMs === 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, delayMs));
}
