// A burst of pods with a claim each, on nodes that are objects: made many at a time, followed by a watch, and counted at its end.

import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  type PersistentVolumeClaim,
  PODS,
  type Pod,
} from "../../src/contracts/kubernetes/resources.ts";
import { createReflector } from "../../src/platform/kube/cache/reflector.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { waitFor } from "../harness/wait-for.ts";
import { claimingPod, claimOf } from "./claiming-pod.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { forAll } from "./object-nodes.ts";
import { type OverCommit, overCommits } from "./over-commits.ts";
import { whyNotPlaced } from "./placed-pods.ts";

const LIMIT_MS = 900_000;
/** Beside that, of each pod: twice what one took of a machine that did much else. */
const POD_LIMIT_MS = 500;
const INTERVAL_MS = 50;

export interface BurstPods {
  readonly className: string;
  readonly request: string;
  readonly schedulerName: string;
  /** Of their container's: requests and limits. */
  readonly resources: object;
}

export interface ObjectBurst {
  /** Of those that are to come. Resolves once the API server has them all. */
  make(names: readonly string[]): Promise<void>;
  /** As the watch has told. */
  bound(): Pod[];
  waiting(): Pod[];
  /** Resolves once so many of them have a node. */
  boundAre(atLeast: number): Promise<void>;
  /** So many of the first `made` have a node, and each of the others says this of why it has none. */
  settled(made: number, bound: number, why: RegExp): Promise<void>;
  /** From the first pod that was made until the one that was bound last. */
  seconds(): number;
  /** As the API server has it now, by pods and claims alone. */
  overCommits(roomBytes: ReadonlyMap<string, number>): Promise<OverCommit[]>;
  stop(): Promise<void>;
}

/** How long so many pods may take until they are placed. */
export function burstLimitMs(count: number): number {
  return LIMIT_MS + count * POD_LIMIT_MS;
}

/** `prefix`: of all of their names, and of no other pod's. */
export async function followBurst(
  { client, namespace, image }: ClusterUnderTest,
  prefix: string,
  { className, request, schedulerName, resources }: BurstPods,
): Promise<ObjectBurst> {
  const reflector = createReflector({
    client,
    resource: PODS,
    log: createLogger("e2e", "warn"),
    select: { namespace },
    keep: (pod) => (pod.metadata.name.startsWith(prefix) ? pod : undefined),
  });
  let firstMs: number | undefined;
  let lastMs = 0;
  reflector.subscribe({
    updated: ({ spec }, before) => {
      if (spec.nodeName && !before.spec.nodeName) lastMs = performance.now();
    },
  });
  reflector.start();
  await reflector.synced;
  const inNamespace = <T extends KubeObject>(object: object): T => {
    const made = object as T;
    return { ...made, metadata: { ...made.metadata, namespace } };
  };
  const bound = (): Pod[] => reflector.store.list().filter(({ spec }) => spec.nodeName);
  const waiting = (): Pod[] => reflector.store.list().filter(({ spec }) => !spec.nodeName);
  const otherwise = (): string => {
    const said = new Set(waiting().map(whyNotPlaced));
    return `${bound().length} of ${reflector.store.size} are; the others say: ${[...said].join(" | ")}`;
  };
  const limitsOf = (count: number) => ({ limitMs: burstLimitMs(count), intervalMs: INTERVAL_MS, otherwise });
  return {
    make: async (names) => {
      firstMs ??= performance.now();
      await forAll(names, async (name) => {
        const claim = inNamespace<PersistentVolumeClaim>(claimOf(name, className, request));
        await client.create("e2e/claim", PERSISTENT_VOLUME_CLAIMS, claim);
        const pod = inNamespace<Pod>(claimingPod(name, image, name));
        const containers = pod.spec.containers.map((container) => ({ ...container, resources }));
        await client.create("e2e/pod", PODS, { ...pod, spec: { ...pod.spec, schedulerName, containers } });
      });
    },
    bound,
    waiting,
    boundAre: async (atLeast) => {
      await waitFor(
        `${atLeast} of ${prefix}… to be placed`,
        () => bound().length >= atLeast || undefined,
        limitsOf(atLeast),
      );
    },
    settled: async (made, count, why) => {
      await waitFor(
        `${count} of ${made} pods ${prefix}… to be placed, and all others to say why not`,
        () => {
          const left = waiting();
          const isAll = reflector.store.size === made && made - left.length === count;
          return (isAll && left.every((pod) => why.test(whyNotPlaced(pod)))) || undefined;
        },
        limitsOf(made),
      );
    },
    seconds: () => (lastMs - (firstMs ?? lastMs)) / 1000,
    overCommits: async (roomBytes) => {
      const { items } = await client.list(PODS, { namespace });
      const claims = await client.list(PERSISTENT_VOLUME_CLAIMS, { namespace });
      const own = items.filter(({ metadata }) => metadata.name.startsWith(prefix));
      return overCommits(own, claims.items, roomBytes);
    },
    stop: () => reflector.stop(),
  };
}
