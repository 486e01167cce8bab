// CSIStorageCapacity, which the operator writes itself: by apply, and only the figures ever change.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { ApiClient, type Json, MERGE } from "./api-client.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";
import { prepareWidgets } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let namespace: string;
let collection: string;

beforeAll(async () => {
  target = await startContractTarget();
  api = new ApiClient(target.baseUrl);
  ({ namespace } = await prepareWidgets(api));
  collection = `/apis/storage.k8s.io/v1/namespaces/${namespace}/csistoragecapacities`;
});

afterAll(() => target.close());

const NODE_TOPOLOGY = { matchLabels: { "topology.tidemark.dev/node": "node-1" } };

function capacityOf(name: string, fields: Json = {}): Json {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSIStorageCapacity",
    metadata: { namespace, name, labels: { "csi.storage.k8s.io/managed-by": "tidemark-operator" } },
    storageClassName: "fast",
    nodeTopology: NODE_TOPOLOGY,
    capacity: "20Gi",
    maximumVolumeSize: "4Pi",
    ...fields,
  };
}

describe("a CSIStorageCapacity", () => {
  it("is made by an apply, found by its label, and says what it was given", async () => {
    const { code, body } = await api.apply(`${collection}/made`, "operator", capacityOf("made"));
    expect(code).toBe(201);
    expect(body).toMatchObject(capacityOf("made"));
    const selector = "labelSelector=csi.storage.k8s.io%2Fmanaged-by%3Dtidemark-operator";
    const found = await api.get(`${collection}?${selector}`);
    expect(found.body.items).toHaveLength(1);
  });

  it("changes its figures by another apply, also to 0", async () => {
    await api.apply(`${collection}/changed`, "operator", capacityOf("changed"));
    const wanted = capacityOf("changed", { capacity: "0", maximumVolumeSize: "0" });
    const { code, body } = await api.apply(`${collection}/changed`, "operator", wanted);
    expect(code).toBe(200);
    expect(body).toMatchObject({ capacity: "0", maximumVolumeSize: "0" });
  });

  it.each([
    ["storageClassName", { storageClassName: "slow" }],
    ["nodeTopology", { nodeTopology: { matchLabels: { "topology.tidemark.dev/node": "node-2" } } }],
  ])("never changes its %s", async (field, fields) => {
    const name = `fixed-${field.toLowerCase()}`;
    await api.apply(`${collection}/${name}`, "operator", capacityOf(name));
    const { code, body } = await api.patch(`${collection}/${name}`, MERGE, fields);
    expect(code).toBe(422);
    const cause = { reason: "FieldValueInvalid", field, message: expect.stringContaining("field is immutable") };
    expect(body).toMatchObject({ reason: "Invalid", details: { causes: [cause] } });
  });
});
