// Reads of the API server for admissions, with a limit over all of them: a pod may name hundreds of claims that no cache has, whoever
// reaches the port may send hundreds of pods at once, and the operator's other work has the same connections.
import type { KubeClient } from "../../kube/client/client.ts";
import { KubeError } from "../../kube/kube-error.ts";
import type { Clock } from "../../process/clock.ts";

export interface ReadLimits {
  /** Reads that the API server is asked at a time. */
  readonly underWay: number;
  /** Reads that wait for their turn; what comes beyond is refused at once. */
  readonly waiting: number;
  /** After so long nobody waits for the answer any more, and the API server is not asked. */
  readonly turnLimitMs: number;
}

type Reads = Pick<KubeClient, "get">;

/** In the order in which they came. Throws KubeError, "TooManyRequests" where there are too many or the turn came too late. */
export function limitReads(client: Reads, limits: ReadLimits, clock: Pick<Clock, "monotonicMs">): Reads {
  const waiting: (() => void)[] = [];
  let underWay = 0;
  const turn = async (): Promise<void> => {
    if (underWay < limits.underWay) {
      underWay += 1;
      return;
    }
    if (waiting.length >= limits.waiting) throw new KubeError("TooManyRequests", 0, TOO_MANY);
    const sinceMs = clock.monotonicMs();
    // Whoever ends passes its place on.
    await new Promise<void>((resolve) => waiting.push(resolve));
    if (clock.monotonicMs() - sinceMs <= limits.turnLimitMs) return;
    pass();
    throw new KubeError("TooManyRequests", 0, TOO_MANY);
  };
  const pass = (): void => {
    const next = waiting.shift();
    if (next === undefined) underWay -= 1;
    else next();
  };
  return {
    get: async (resource, name) => {
      await turn();
      try {
        return await client.get(resource, name);
      } finally {
        pass();
      }
    },
  };
}

const TOO_MANY = "too many claims of pods are being read at once";
