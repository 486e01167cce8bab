import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { NODE_STORAGES } from "../../../src/contracts/kinds/node-storage.ts";
import {
  CSI_NODES,
  CSI_STORAGE_CAPACITIES,
  type CSIStorageCapacity,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { createCapacityLoop } from "../../../src/operator/capacity/capacity-loop.ts";
import { createCapacityCaches } from "../../../src/operator/capacity/capacity-objects.ts";
import { createReflector } from "../../../src/platform/kube/cache/reflector.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

const OPTIONS = { fieldManager: "test", force: true } as const;
const NAMESPACE = "tidemark-system";

let cluster: TestCluster;
/** What a case has started, to be stopped in this order whatever became of it. */
const running: (() => Promise<void>)[] = [];
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(async () => {
  for (const stop of running) await stop();
  await cluster.stop();
});

async function addNode(name: string, deviceClasses: object[]): Promise<void> {
  const driver = { name: "local.tidemark.dev", nodeID: name };
  const csiNode = { apiVersion: "storage.k8s.io/v1", kind: "CSINode", metadata: { name } };
  await cluster.client.apply("test/csi-node", CSI_NODES, { ...csiNode, spec: { drivers: [driver] } }, OPTIONS);
  const identity = { apiVersion: "tidemark.dev/v1alpha1", kind: "NodeStorage", metadata: { name } };
  await cluster.client.apply("test/storage", NODE_STORAGES, { ...identity, spec: {} }, OPTIONS);
  await cluster.client.apply(
    "test/storage",
    NODE_STORAGES,
    { ...identity, status: { deviceClasses } },
    { ...OPTIONS, subresource: "status" },
  );
}

async function addClass(name: string, parameters: Record<string, string>, provisioner = "local.tidemark.dev") {
  const storageClass = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name } };
  await cluster.client.create("test/class", STORAGE_CLASSES, { ...storageClass, provisioner, parameters });
}

/** "CLASS on NODE: CAPACITY, at most MAXIMUM", of every object that there is. */
async function published(): Promise<string[]> {
  const { items } = await cluster.client.list(CSI_STORAGE_CAPACITIES);
  return items.map(describeCapacity).sort();
}

function describeCapacity(one: CSIStorageCapacity): string {
  const on = one.nodeTopology?.matchLabels?.["topology.tidemark.dev/node"];
  return `${one.storageClassName} on ${on}: ${one.capacity}, at most ${one.maximumVolumeSize}`;
}

async function untilPublished(expected: readonly string[]): Promise<void> {
  await untilRead("the capacities", published, (all) => JSON.stringify(all) === JSON.stringify(expected.toSorted()));
}

const loop = (free: string) => ({ name: "loop", backend: "loop", free });
const lvm = (name: string, free: string, more: object = {}) => ({ name, backend: "lvm", free, ...more });

it("what each node has is published for each class, follows what the node reports, and goes with class and node", async () => {
  // The class that standalone makes begins with 1Gi, whatever is asked for.
  const OF_LOOP = ["tidemark-loop on node-1: 10Gi, at most 4Pi"];
  await addNode(NODE_NAME, [loop("10Gi"), lvm("ssd", "20Gi", { default: true }), lvm("hdd", "30Gi")]);
  await untilPublished(OF_LOOP);

  await addClass("lvm", { backend: "lvm" });
  await addClass("lvm-hdd", { backend: "lvm", deviceClass: "hdd", maxSize: "25Gi" });
  await addClass("lvm-nvme", { backend: "lvm", deviceClass: "nvme" });
  await addClass("wrong", { backend: "loop", deviceClass: "hdd" });
  await addClass("foreign", { backend: "lvm" }, "other.example.com");
  const ofNode1 = [
    ...OF_LOOP,
    "lvm on node-1: 20Gi, at most 20Gi",
    "lvm-hdd on node-1: 30Gi, at most 25Gi",
    "lvm-nvme on node-1: 0, at most 0",
  ];
  await untilPublished(ofNode1);

  await addNode("node-2", [lvm("hdd", "7Gi", { problem: "a PV is missing" })]);
  await untilPublished([
    ...ofNode1,
    ...["lvm", "lvm-hdd", "lvm-nvme"].map((name) => `${name} on node-2: 0, at most 0`),
  ]);

  await addNode("node-2", [lvm("hdd", "7Gi", { default: true })]);
  await untilPublished([
    ...ofNode1,
    "lvm on node-2: 7Gi, at most 7Gi",
    "lvm-hdd on node-2: 7Gi, at most 7Gi",
    "lvm-nvme on node-2: 0, at most 0",
  ]);
  const [one] = (await cluster.client.list(CSI_STORAGE_CAPACITIES, { namespace: NAMESPACE })).items;
  expect(one?.metadata.labels).toEqual({
    "csi.storage.k8s.io/drivername": "local.tidemark.dev",
    "csi.storage.k8s.io/managed-by": "tidemark-operator",
  });

  await cluster.client.delete("test/class", STORAGE_CLASSES, { name: "lvm-nvme" });
  await cluster.client.delete("test/node", CSI_NODES, { name: "node-2" });
  const left = ofNode1.filter((line) => !line.startsWith("lvm-nvme"));
  await untilPublished(left);

  await cluster.stopOperator();
  const before = (await cluster.client.list(CSI_STORAGE_CAPACITIES)).items;
  await cluster.client.delete("test/class", STORAGE_CLASSES, { name: "lvm" });
  await cluster.client.delete("test/capacity", CSI_STORAGE_CAPACITIES, {
    namespace: NAMESPACE,
    name: before.find(({ storageClassName }) => storageClassName === "lvm-hdd")?.metadata.name ?? "",
  });
  await cluster.startOperator();
  await untilPublished(left.filter((line) => !line.startsWith("lvm on")));
});

it("is not written again while nothing has changed, however often a node reports", async () => {
  await cluster.stopOperator();
  const log = createLogger("test", "silent");
  const { client, calls } = interposed(
    cluster.client,
    () => false,
    async () => {},
  );
  const classes = createReflector({ client: cluster.client, resource: STORAGE_CLASSES, log });
  const caches = createCapacityCaches(client, classes, NAMESPACE, log);
  const duty = createCapacityLoop(client, caches, NAMESPACE, log);
  classes.start();
  caches.start();
  duty.begin();
  running.push(duty.end, caches.stop, classes.stop);
  const writes = () => calls.filter((call) => !call.startsWith("list"));
  const count = (await cluster.client.list(CSI_STORAGE_CAPACITIES)).items.length;
  await addNode(NODE_NAME, [loop("10Gi"), lvm("hdd", "30Gi"), lvm("more", "1Gi")]);
  await addNode(NODE_NAME, [loop("9Gi"), lvm("hdd", "30Gi")]);
  await untilRead("the other figure", published, (all) => all.some((line) => line.includes("9Gi")));
  await addNode(NODE_NAME, [loop("9Gi"), lvm("hdd", "30Gi"), lvm("more", "2Gi")]);
  await addNode(NODE_NAME, [loop("8Gi"), lvm("hdd", "30Gi")]);
  await untilRead("the last figure", published, (all) => all.some((line) => line.includes("8Gi")));
  expect(count).toBeGreaterThan(1);
  expect(writes()).toEqual(["apply csistoragecapacities", "apply csistoragecapacities"]);
});
