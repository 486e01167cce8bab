// The pods that questions are about, as the cache has them. A scheduler may have seen a pod a moment before us, so a question waits for the
// change that brings it.

import type { Pod } from "../../contracts/kubernetes/resources.ts";
import { MIB } from "../../contracts/quantities/quantity.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import { recognise } from "../decide/decide-asked-pod.ts";
import { type ClaimingPod, claimsOf } from "../decide/decide-demand.ts";

export interface AskedPods {
  /** Resolves when the pod is seen, or after a limit; `bytes`: of the question, which is in memory until then. */
  seen(asked: ClaimingPod, bytes: number): Promise<void>;
  /** As it is seen now; undefined: there is no such pod, or not as it is asked about. */
  find(asked: ClaimingPod): ClaimingPod | undefined;
  /** To be called for each pod that is added, changed or gone, when the cache has that. */
  changed(pod: Pod): void;
}

const WAIT_LIMIT_MS = 200;
/** Questions that wait, together; each counts for so much at least, which makes 256 of them. One more is answered at once: it is asked again. */
const WAITING_LIMIT_BYTES = 64 * MIB;
const LEAST_BYTES = MIB / 4;

export function createAskedPods(pods: Pick<ReadableStore<Pod>, "get">): AskedPods {
  /** By the pod's key. */
  const waiting = new Map<string, Set<() => void>>();
  let waitingBytes = 0;
  const recognised = (asked: ClaimingPod) => recognise(asked, pods.get(keyOf(asked)));

  const wait = (asked: ClaimingPod, countedBytes: number): Promise<void> =>
    new Promise((resolve) => {
      const key = keyOf(asked);
      const looks = waiting.get(key) ?? new Set();
      const end = (): void => {
        clearTimeout(timer);
        looks.delete(look);
        if (looks.size === 0) waiting.delete(key);
        waitingBytes -= countedBytes;
        resolve();
      };
      const look = (): void => {
        if (recognised(asked) !== "NotSeen") end();
      };
      const timer = setTimeout(end, WAIT_LIMIT_MS);
      waitingBytes += countedBytes;
      waiting.set(key, looks.add(look));
    });

  return {
    seen: async (asked, bytes) => {
      if (claimsOf(asked).length === 0 || recognised(asked) !== "NotSeen") return;
      const countedBytes = Math.max(bytes, LEAST_BYTES);
      if (waitingBytes + countedBytes <= WAITING_LIMIT_BYTES) await wait(asked, countedBytes);
    },
    find: (asked) => {
      // Pods without claims are in no cache: they take nothing.
      if (claimsOf(asked).length === 0) return asked;
      const pod = recognised(asked);
      return typeof pod === "string" ? undefined : pod;
    },
    changed: (pod) => {
      for (const look of [...(waiting.get(keyOf(pod)) ?? [])]) look();
    },
  };
}

function keyOf({ metadata }: ClaimingPod): string {
  return `${metadata.namespace ?? "default"}/${metadata.name}`;
}
