// Publishes what each node can still take (CSIStorageCapacity), while this replica leads: from what the nodes report, by watch, and
// written on change only; csi-provisioner would have to ask again and again. And reports claims that wait for a volume of a StorageClass
// that no node can ever give.
import { LOCAL } from "../../contracts/csi/driver.ts";
import { objectKey } from "../../contracts/kubernetes/object.ts";
import { CSI_STORAGE_CAPACITIES, type PersistentVolumeClaim } from "../../contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../contracts/names.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { BACK_OFFS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import { hasDriver } from "../csi/create/placement.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import { type CapacityCaches, capacityName, capacityObject, isOfPair, tells } from "./capacity-objects.ts";
import { classProblem, wantedCapacities } from "./decide-capacity.ts";

const CONCURRENCY = 4;

/** `namespace`: where the objects are. */
export function createCapacityLoop(client: KubeClient, caches: CapacityCaches, namespace: string, log: Logger): Duty {
  const queue = createLedQueue(
    { synced: caches.synced, keys: caches.nodeNames },
    {
      name: "capacities",
      concurrency: CONCURRENCY,
      run: async (nodeName) => {
        await publish(client, caches, namespace, nodeName);
        return "done";
      },
      log,
      backOff: BACK_OFFS.waited,
    },
  );
  caches.onChange(queue.add, queue.addAll);
  return queue;
}

async function publish(
  client: KubeClient,
  { storages, csiNodes, capacities, storageClasses }: CapacityCaches,
  namespace: string,
  nodeName: string,
): Promise<void> {
  const node = csiNodes.store.get(nodeName);
  // The last report of a node that is gone, or no longer has a driver of ours, does not count.
  const isServed = node !== undefined && hasDriver(node, LOCAL);
  const wanted = isServed ? wantedCapacities(storageClasses.store.list(), nodeName, storages.store.get(nodeName)) : [];
  for (const existing of capacities.store.byIndex("node", nodeName)) {
    const { name, uid } = existing.metadata;
    if (wanted.some((one) => capacityName(one) === name && isOfPair(existing, one))) continue;
    await client.delete("capacity/withdraw", CSI_STORAGE_CAPACITIES, { namespace, name }, { uid });
  }
  for (const one of wanted) {
    const existing = capacities.store.get(`${namespace}/${capacityName(one)}`);
    if (existing !== undefined && tells(existing, one)) continue;
    await client.apply("capacity/publish", CSI_STORAGE_CAPACITIES, capacityObject(namespace, one), {
      fieldManager: FIELD_MANAGERS.operator,
      force: true,
    });
  }
}

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
