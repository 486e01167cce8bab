// MutatingWebhookConfiguration, of which a sync from Git owns all but one field, and the operator that one, by apply.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AnswerBody } from "./answer-body.ts";
import { ApiClient, type Json } from "./api-client.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";

const COLLECTION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const CA =
  "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJlRENDQVIrZ0F3SUJBZ0lCQVRBS0JnZ3Foa2pPUFFRREFqQU5NUXN3Q1FZRFZRUURFd0pqWVRBZUZ3MHkKTmpFeE1qTXdNREF3TURCYUZ3MHpOakV4TWpBd01EQXdNREJhCi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

let target: ContractTarget;
let api: ApiClient;
const made: string[] = [];

beforeAll(async () => {
  target = await startContractTarget();
  api = new ApiClient(target.baseUrl);
});
afterAll(async () => {
  for (const name of made) await api.delete(`${COLLECTION}/${name}`);
  await target.close();
});

/** It is asked about nothing that any cluster has. */
const webhook = (name: string, fields: Json = {}): Json => ({
  name,
  clientConfig: { service: { namespace: "nowhere", name: "nobody", path: "/mutate-pods", port: 443 } },
  rules: [
    {
      apiGroups: ["contract.example"],
      apiVersions: ["v1"],
      resources: ["nothings"],
      operations: ["CREATE"],
      scope: "*",
    },
  ],
  failurePolicy: "Ignore",
  sideEffects: "None",
  admissionReviewVersions: ["v1"],
  ...fields,
});
const configuration = (name: string, webhooks: Json[]): Json => ({
  apiVersion: "admissionregistration.k8s.io/v1",
  kind: "MutatingWebhookConfiguration",
  metadata: { name },
  webhooks,
});
const trusting = (name: string, caBundle: string): Json =>
  configuration(name, [{ name: "one.contract.example", clientConfig: { caBundle } }]);

async function fromGit(fields: Json = {}): Promise<string> {
  const name = `contract-${randomUUID().slice(0, 8)}`;
  made.push(name);
  const webhooks = [webhook("one.contract.example", fields), webhook("two.contract.example")];
  expect((await api.apply(`${COLLECTION}/${name}`, "git", configuration(name, webhooks))).code).toBe(201);
  return name;
}
const stored = async (name: string): Promise<Json[]> =>
  ((await api.get(`${COLLECTION}/${name}`)).body as AnswerBody & { webhooks: Json[] }).webhooks;

describe("a MutatingWebhookConfiguration", () => {
  it("has its defaults filled in", async () => {
    const name = await fromGit();
    expect((await stored(name))[0]).toEqual(
      webhook("one.contract.example", {
        matchPolicy: "Equivalent",
        namespaceSelector: {},
        objectSelector: {},
        reinvocationPolicy: "Never",
        timeoutSeconds: 10,
      }),
    );
  });

  it("takes an apply of one webhook's caBundle, and keeps all else", async () => {
    const name = await fromGit();
    const before = await stored(name);
    expect((await api.apply(`${COLLECTION}/${name}`, "operator", trusting(name, CA))).code).toBe(200);
    const [one, two] = before;
    expect(await stored(name)).toEqual([
      { ...one, clientConfig: { ...(one?.["clientConfig"] as object), caBundle: CA } },
      two,
    ]);
  });

  it("keeps the caBundle when the rest is applied from Git once more, the same or changed", async () => {
    const name = await fromGit();
    await api.apply(`${COLLECTION}/${name}`, "operator", trusting(name, CA));
    const version = (await api.get(`${COLLECTION}/${name}`)).body.metadata["resourceVersion"];
    const again = [webhook("one.contract.example"), webhook("two.contract.example")];
    const { body } = await api.apply(`${COLLECTION}/${name}`, "git", configuration(name, again));
    expect(body.metadata["resourceVersion"]).toBe(version);
    const changed = configuration(name, [webhook("one.contract.example", { timeoutSeconds: 3 })]);
    expect((await api.apply(`${COLLECTION}/${name}`, "git", changed)).code).toBe(200);
    expect(await stored(name)).toMatchObject([{ timeoutSeconds: 3, clientConfig: { caBundle: CA } }]);
  });

  it("is not made of a caBundle alone", async () => {
    const name = `contract-${randomUUID().slice(0, 8)}`;
    const { code } = await api.apply(`${COLLECTION}/${name}`, "operator", trusting(name, CA));
    expect(code).toBe(422);
  });
});
