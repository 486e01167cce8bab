import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import { CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS } from "../../../src/contracts/kubernetes/resources.ts";
import { untilRead } from "../../harness/wait-for.ts";
import type { TestCluster } from "./cluster.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import type { SpanUnderTest } from "./span-under-test.ts";

const NAME = { namespace: "tidemark-volumes", name: "tidemark-members" };
let tested: SpanCluster;
let cluster: TestCluster;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ cluster, span } = tested);
});
afterAll(() => tested.stop());

const untilGuarded = (members: string) =>
  untilRead(
    `${members} members`,
    async () => (await cluster.client.get(CONFIG_MAPS, NAME))?.data,
    (data) => data?.["members"] === members,
  );

it("what the guard's policies ask is there before the first member, with the operator's name", async () => {
  expect(await untilGuarded("none")).toEqual({
    members: "none",
    operator: "system:serviceaccount:tidemark-system:operator",
  });
});

it("says whether there are members, also when somebody has deleted it, and is not written again while there are some", async () => {
  const first = await span.created();
  await untilGuarded("some");
  await cluster.client.delete("test/delete", CONFIG_MAPS, NAME);
  const second = await span.created();
  await untilGuarded("some");
  const version = async () => (await cluster.client.get(CONFIG_MAPS, NAME))?.metadata.resourceVersion;
  const before = await version();
  await span.remove(first.handle);
  const { items } = await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: NAME.namespace });
  expect(items).toHaveLength(1);
  expect(await version()).toBe(before);
  await span.remove(second.handle);
  await untilGuarded("none");
});

it("counts logical volumes, which the definitions would take with them", async () => {
  const name = "fs-11111111-2222-4333-8444-555555555555";
  await cluster.client.create("test/logical-volume", LOGICAL_VOLUMES, {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "LogicalVolume",
    metadata: { name },
    spec: { nodeName: "node-1", deviceClass: "ssd", size: "1Gi" },
  });
  await untilGuarded("some");
  await cluster.client.delete("test/logical-volume", LOGICAL_VOLUMES, { name });
  await untilGuarded("none");
});
