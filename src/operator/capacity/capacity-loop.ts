// Publishes what each node can still take (CSIStorageCapacity), while this replica leads: from what the nodes report, by watch, and
// written on change only. csi-provisioner would have to ask again and again.
import { FIELD_MANAGERS } from "../../api/names.ts";
import { LOCAL } from "../../csi/driver.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_STORAGE_CAPACITIES } from "../../kube/resources.ts";
import type { Logger } from "../../process/log.ts";
import { hasDriver } from "../csi/placement.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { CapacityCaches } from "./capacity-caches.ts";
import { capacityName, capacityObject, isOfPair, tells } from "./capacity-object.ts";
import { wantedCapacities } from "./decide-capacity.ts";

const CONCURRENCY = 4;
/** A pod that waits for room is tried by the scheduler when the figure arrives. */
const BACK_OFF = { baseMs: 50, capMs: 60_000 };

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
      backOff: BACK_OFF,
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
  // What a node said last that is gone, or has no driver of ours any more, counts no more.
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
