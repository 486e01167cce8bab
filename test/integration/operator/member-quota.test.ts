// What a namespace may have of its members' class, read from an API server that has the quotas of two.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { NAMESPACES, RESOURCE_QUOTAS } from "../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { readMemberQuota } from "../../../src/operator/gather/member-room.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { buildLayout } from "../../builders/filesystem-layout.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";

const LIMIT_MS = 120_000;
const BUDGET_BYTES = 50 * GIB;
let api: ApiUnderTest;
let client: ConnectedKubeClient;

beforeAll(async () => {
  const { log } = createRecordingLog();
  api = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: api.url }, effects: directEffects, log });
  for (const name of ["shop", "office", "street"])
    await client.create("test/namespace", NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  for (const [namespace, storage] of [
    ["shop", "100Gi"],
    ["office", "1Gi"],
  ] as const)
    await client.create("test/quota", RESOURCE_QUOTAS, {
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { namespace, name: "team" },
      spec: { hard: { "gp3.storageclass.storage.k8s.io/requests.storage": storage } },
    });
}, LIMIT_MS);
afterAll(async () => {
  await client?.close();
  await api?.close();
}, LIMIT_MS);

/** With one member of 1Gi. */
const volumeOf = (namespace: string, name: string) => {
  const layout = buildLayout({ claimRef: { namespace, name, uid: `uid-${name}` } });
  return { ...layout, metadata: { ...layout.metadata, name: `fs-${name}` } };
};
const VOLUMES = [volumeOf("shop", "a"), volumeOf("shop", "b"), volumeOf("office", "c"), volumeOf("office", "d")];

it.each([
  ["shop", { name: "team", limitBytes: 100 * GIB, takenBytes: GIB }],
  ["office", { name: "team", limitBytes: GIB, takenBytes: 2 * GIB }],
  ["street", { name: undefined, limitBytes: BUDGET_BYTES, takenBytes: 0 }],
])("what %s may have depends on no other namespace's quota, and on no other's volumes", async (namespace, expected) => {
  const found = await readMemberQuota(client, namespace, "gp3", "fs-a", VOLUMES, BUDGET_BYTES);
  expect(found).toEqual({ className: "gp3", ...expected });
});
