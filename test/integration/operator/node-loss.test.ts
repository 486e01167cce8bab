import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildClaim } from "../../builders/claim.ts";
import { type FakeLvmNode, startFakeLvmNode } from "../../fakes/fake-lvm-node.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage, NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

const namespace = "default";
const DELETE = { "tidemark.dev/on-node-loss": "Delete" };
const OUT_OF_SERVICE = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };

let cluster: TestCluster;
let lvm: FakeLvmNode;
beforeAll(async () => {
  cluster = await startTestCluster();
  lvm = await startFakeLvmNode(cluster.client, NODE_NAME, { ssd: "100Gi" }, createLogger("test", "silent"));
  await cluster.client.create("test/class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "lvm" },
    provisioner: "local.tidemark.dev",
    parameters: { backend: "lvm" },
  });
});
afterAll(async () => {
  await lvm.stop();
  await cluster.stop();
});

const readClaim = (name: string) => () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
const stalledAs = (name: string) => async () => {
  const filesystem = await cluster.client.get(FILESYSTEMS, { namespace, name });
  const stalled = filesystem?.status?.conditions?.find(({ type }) => type === "Stalled");
  return stalled && `${stalled.status} ${stalled.reason}`;
};

const isGoingOn = (stalled: string | undefined): boolean => stalled?.startsWith("False") === true;

async function provision(name: string, annotations: Record<string, string>, storageClassName = "lvm"): Promise<string> {
  const claim = buildClaim({ name, storageClassName, annotations, request: "1Gi" });
  const { metadata } = await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
  await untilRead(`${name} is bound`, readClaim(name), (one) => one?.status?.phase === "Bound");
  await untilRead(`${name} is not stalled`, stalledAs(name), isGoingOn);
  return `fs-${metadata.uid}`;
}

async function taint(...taints: object[]): Promise<void> {
  await cluster.client.mergePatch("test/taint", NODES, { name: NODE_NAME }, { spec: { taints } });
}

/** A node that is lost says nothing. */
function silence(silent: boolean): void {
  cluster.node.silent = silent;
  lvm.silent = silent;
}

/** The operator may count by what its caches show, a moment later. */
async function untilMetric(line: string): Promise<void> {
  const read = async (): Promise<string[]> => {
    const answer = await fetch(`http://127.0.0.1:${cluster.operatorHttpPort()}/metrics`);
    return (await answer.text()).split("\n");
  };
  await untilRead(`the metric ${line}`, read, (lines) => lines.includes(line));
}

async function addNodes(...names: string[]): Promise<void> {
  for (const name of names)
    await cluster.client.create("test/node", NODES, { apiVersion: "v1", kind: "Node", metadata: { name } });
}

it("claims stay while their node may well be there: too many look lost at once", async () => {
  await provision("braked", DELETE);
  silence(true);
  await taint(OUT_OF_SERVICE);
  await eventMessage(cluster.client, "braked", "NodeLost", "1 of 1 nodes look lost, above the limit of 1");
  expect(await readClaim("braked")()).toBeDefined();
  await taint();
  silence(false);
  await untilRead("it goes on", stalledAs("braked"), isGoingOn);
});

it("of a node that is out of service the claims that say so are deleted; the others stall, and go on when it returns", async () => {
  await addNodes("node-2", "node-3");
  const handles = {
    kept: await provision("kept", {}),
    loop: await provision("kept-loop", {}, "tidemark-loop"),
    deleted: await provision("deleted", DELETE),
    loopDeleted: await provision("deleted-loop", DELETE, "tidemark-loop"),
  };
  silence(true);
  await taint(OUT_OF_SERVICE);
  for (const name of ["deleted", "deleted-loop", "braked"]) {
    await untilRead(`${name} is deleted`, readClaim(name), (one) => one === undefined);
    await eventMessage(cluster.client, name, "NodeLost", "node node-1 is out of service: the claim is deleted");
  }
  for (const name of ["kept", "kept-loop"]) {
    await untilRead(`${name} is stalled`, stalledAs(name), (one) => one === "True NodeLost");
    await eventMessage(cluster.client, name, "NodeLost", "with the only copy");
    expect(await readClaim(name)()).toBeDefined();
  }
  // Its data is there, and the node may be back at any time.
  expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: handles.deleted })).toBeDefined();
  await untilMetric('tidemark_operator_lost_node_volumes{on_loss="Keep"} 2');
  await untilMetric("tidemark_operator_lost_node_claims_deleted_total 3");

  silence(false);
  await taint();
  lvm.look();
  for (const name of ["kept", "kept-loop"]) await untilRead(`${name} goes on`, stalledAs(name), isGoingOn);
  for (const handle of [handles.kept, handles.loop])
    expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle })).toBeDefined();
  expect(cluster.node.memberBytes.has(handles.loop)).toBe(true);
  await untilMetric('tidemark_operator_lost_node_volumes{on_loss="Keep"} 0');
});

it("a claim that is annotated when its node is lost already is deleted then", async () => {
  await provision("late", {});
  silence(true);
  await taint(OUT_OF_SERVICE);
  await untilRead("it is stalled", stalledAs("late"), (one) => one === "True NodeLost");
  const name = { namespace, name: "late" };
  await cluster.client.mergePatch("test/annotate", PERSISTENT_VOLUME_CLAIMS, name, {
    metadata: { annotations: DELETE },
  });
  await untilRead("it is deleted", readClaim("late"), (one) => one === undefined);
  silence(false);
  await taint();
});

it("of a node that is gone the volumes of deleted claims end without its word, and nothing is removed on it", async () => {
  const handle = await provision("left", DELETE);
  const volumeID = (await cluster.client.get(LOGICAL_VOLUMES, { name: handle }))?.metadata.uid ?? "";
  const volumeName = `pvc-${handle.slice("fs-".length)}`;
  const node = await cluster.client.get(NODES, { name: NODE_NAME });
  silence(true);
  await cluster.client.delete("test/node", NODES, { name: NODE_NAME });
  await untilRead("it is deleted", readClaim("left"), (one) => one === undefined);
  await untilRead(
    "its volume has ended",
    () => cluster.client.get(PERSISTENT_VOLUMES, { name: volumeName }),
    (one) => one === undefined,
  );
  expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle })).toBeUndefined();
  expect(await cluster.client.get(LOGICAL_VOLUMES, { name: handle })).toBeUndefined();
  const message = await eventMessage(cluster.client, volumeName, "NodeLost", "Node node-1 is gone");
  expect(message).toContain(volumeID);

  const { labels } = node?.metadata ?? {};
  const back = { apiVersion: "v1", kind: "Node", metadata: { name: NODE_NAME, ...(labels && { labels }) } };
  await cluster.client.create("test/node", NODES, back);
  silence(false);
  lvm.look();
  await untilRead("the others go on", stalledAs("kept"), isGoingOn);
  expect(lvm.volumes.has(volumeID)).toBe(true);
});
