// Tells claims that wait for a volume of a StorageClass that no node can ever give, while this replica leads.

import type { Reflector } from "../../kube/cache/reflector.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { CapacityCaches } from "./capacity-caches.ts";
import { classProblem } from "./class-problem.ts";

export function createPendingClaims(
  claims: Reflector<PersistentVolumeClaim>,
  { storages, storageClasses, synced }: Pick<CapacityCaches, "storages" | "storageClasses" | "synced">,
  events: EventRecorder,
  log: Logger,
): Duty {
  const isPending = ({ spec }: PersistentVolumeClaim): boolean => spec.volumeName === undefined;
  const keyOf = ({ metadata }: PersistentVolumeClaim): string => objectKey(metadata);
  const queue = createLedQueue(
    {
      synced: Promise.all([claims.synced, synced]).then(() => undefined),
      keys: () => claims.store.list().filter(isPending).map(keyOf),
    },
    {
      name: "pending-claims",
      concurrency: 1,
      run: async (key) => {
        const claim = claims.store.get(key);
        const storageClass = storageClasses.store.get(claim?.spec.storageClassName ?? "");
        const problem = storageClass && classProblem(storageClass, storages.store.list());
        if (claim !== undefined && isPending(claim) && problem !== undefined)
          events.record(claim, "Warning", "StorageClassInvalid", problem);
        return "done";
      },
      log,
    },
  );
  claims.subscribe({
    added: (claim) => {
      if (isPending(claim)) queue.add(keyOf(claim));
    },
  });
  storageClasses.subscribe({ added: queue.addAll });
  storages.subscribe({ added: queue.addAll });
  return queue;
}
