// What the agent says of its node's place when kubelet registers a driver, on an API server with Nodes.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, expect, it } from "@jest/globals";
import { createCsiNode } from "../../../src/agent/csi/csi-node.ts";
import { createNodePlace } from "../../../src/agent/csi/kubelet-registration.ts";
import type { CsiNodeParts } from "../../../src/agent/csi/mount-volume.ts";
import { LOCAL, SPAN } from "../../../src/contracts/csi/driver.ts";
import { NodeClient, type Topology } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { NODES, type Node } from "../../../src/contracts/kubernetes/resources.ts";
import { isWithin } from "../../../src/operator/decide/volume-topology.ts";
import { KubeError } from "../../../src/platform/kube/kube-error.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { type ApiServer, startApiServer } from "../operator/api-server.ts";

const NAME = "node-cloud";
const ZONE = "topology.kubernetes.io/zone";
const REGION = "topology.kubernetes.io/region";
const UNINITIALIZED = { key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" };
const own = { "topology.tidemark.dev/node": NAME };
let server: ApiServer;
let nowMs = 0;
beforeAll(async () => {
  server = await startApiServer("node-a");
});
afterEach(async () => {
  if ((await server.client.get(NODES, { name: NAME })) !== undefined)
    await server.client.delete("test/node", NODES, { name: NAME });
});
afterAll(() => server.stop());

const place = () => createNodePlace(server.client, NAME, { monotonicMs: () => nowMs });
async function createNode(labels: Record<string, string>, spec: NonNullable<Node["spec"]> = {}): Promise<void> {
  await server.client.create("test/node", NODES, {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: NAME, labels },
    spec,
  });
}

it("is the node, and for spans its region and zone, as the Node has them", async () => {
  await createNode({ [ZONE]: "a", [REGION]: "north", "rack.example.com": "7" });
  expect(await place()(LOCAL)).toEqual(own);
  expect(await place()(SPAN)).toEqual({ ...own, [ZONE]: "a", [REGION]: "north" });
});

it("is within allowedTopologies of a zone, as csi-provisioner compares them", async () => {
  await createNode({ [ZONE]: "a" });
  const segments = await place()(SPAN);
  const inZone = (zone: string): Topology[] => [{ segments: { [ZONE]: zone } }];
  expect([isWithin(inZone("a"), segments), isWithin(inZone("b"), segments)]).toEqual([true, false]);
});

it("is read anew each time, since kubelet refuses what differs from the Node", async () => {
  await createNode({});
  const asked = place();
  expect(await asked(SPAN)).toEqual(own);
  await server.client.mergePatch("test/label", NODES, { name: NAME }, { metadata: { labels: { [ZONE]: "b" } } });
  expect(await asked(SPAN)).toEqual({ ...own, [ZONE]: "b" });
});

it("is waited for on a node that its cloud provider has not labelled yet, for five minutes at most", async () => {
  await createNode({}, { taints: [UNINITIALIZED] });
  const asked = place();
  expect(await asked(LOCAL)).toEqual(own);
  await expect(asked(SPAN)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringContaining("its zone is not known yet"),
  });
  nowMs += 300_000;
  expect(await asked(SPAN)).toEqual(own);
});

it("is the node alone where there is no Node, or where the role of an earlier version forbids to read it", async () => {
  expect(await place()(SPAN)).toEqual(own);
  const forbidding = { get: () => Promise.reject(new KubeError("Forbidden", 403, "nodes is forbidden")) };
  expect(await createNodePlace(forbidding, NAME, { monotonicMs: () => nowMs })(SPAN)).toEqual(own);
});

it("is what kubelet hears on the socket of the driver of spans", async () => {
  await createNode({ [ZONE]: "a" });
  const directory = mkdtempSync(join(tmpdir(), "tidemark-node-place-"));
  const path = join(directory, "csi.sock");
  const serving = { log: createLogger("test", "silent"), refusalOf: () => undefined, answered: () => undefined };
  const parts = doubleOf<CsiNodeParts>("CsiNodeParts", { driver: SPAN, nodeName: NAME, place: place() });
  const served = await serveOnSocket(path, [createCsiNode(serving, parts)]);
  const client = new NodeClient(`unix://${path}`, credentials.createInsecure());
  try {
    const info = await new Promise((resolve, reject) => {
      client.nodeGetInfo({}, (error, answer) => (error === null ? resolve(answer) : reject(error)));
    });
    expect(info).toMatchObject({ nodeId: NAME, accessibleTopology: { segments: { ...own, [ZONE]: "a" } } });
  } finally {
    client.close();
    await served.close();
    rmSync(directory, { recursive: true });
  }
});
