// The extender's view of the API server: one reflector per kind it reads, begun one after another, so that no two first lists are in
// memory at once.

import { createReflector, type Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Logger } from "../../process/log.ts";
import type { AskedPods } from "./asked-pods.ts";
import { type ClusterStores, indexesOf, KINDS_READ, type KindsRead, RESOURCES } from "./cluster-stores.ts";
import type { ClusterView } from "./cluster-view.ts";
import { createKeeping } from "./kept/kept-fields.ts";

export function createCaches(client: KubeClient, log: Logger) {
  const keep = createKeeping();
  const reflectorOf = <K extends keyof KindsRead>(kind: K): Reflector<KindsRead[K]> =>
    createReflector({ client, resource: RESOURCES[kind], log, keep: keep[kind], indexes: indexesOf(kind) });
  const podReflector = reflectorOf("pods");
  const reflectors = KINDS_READ.map((kind) => [kind, kind === "pods" ? podReflector : reflectorOf(kind)] as const);
  const started: { stop(): Promise<void> }[] = [];
  return {
    stores: Object.fromEntries(reflectors.map(([kind, { store }]) => [kind, store])) as unknown as ClusterStores,
    /** Resolves when each kind is there, and has been told to the view. */
    start: async (view: ClusterView, { changed }: Pick<AskedPods, "changed">): Promise<void> => {
      for (const [kind, reflector] of reflectors) tell(kind, reflector, view);
      podReflector.subscribe({ added: changed, updated: changed, deleted: changed });
      for (const [, reflector] of reflectors) {
        started.push(reflector);
        reflector.start();
        await reflector.synced;
      }
    },
    stop: async (): Promise<void> => {
      await Promise.all(started.map((reflector) => reflector.stop()));
    },
  };
}

function tell<K extends keyof KindsRead>(kind: K, reflector: unknown, view: ClusterView): void {
  const changed = (object: KubeObject): void => view.changed(kind, object as KindsRead[K]);
  (reflector as Reflector<KindsRead[K]>).subscribe({
    added: changed,
    updated: (object, before) => view.changed(kind, object, before),
    deleted: changed,
  });
}
