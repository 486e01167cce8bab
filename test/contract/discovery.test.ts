// What clients find out before they do anything: versions, groups, resources, schemas, health.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { ApiClient } from "./api-client.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";
import { prepareWidgets, WIDGET_API_VERSION, WIDGET_GROUP } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;

beforeAll(async () => {
  target = await startContractTarget();
  api = new ApiClient(target.baseUrl);
  await prepareWidgets(api);
});

afterAll(() => target.close());

it.each(["/healthz", "/readyz", "/livez"])("%s says ok", async (path) => {
  const { code, body } = await api.get(path);
  expect(code).toBe(200);
  expect(body["text"]).toBe("ok");
});

it("/version tells the version of the API", async () => {
  const { body } = await api.get("/version");
  expect(body["major"]).toBe("1");
  expect(body["gitVersion"]).toMatch(/^v1\.\d+\.\d+/);
});

it("/api and /apis list what is served, defined kinds included", async () => {
  expect((await api.get("/api")).body["versions"]).toEqual(["v1"]);
  const { body } = await api.get("/apis");
  const versions = body["groups"].map((group) => group["preferredVersion"].groupVersion);
  expect(versions).toEqual(
    expect.arrayContaining([
      WIDGET_API_VERSION,
      "storage.k8s.io/v1",
      "coordination.k8s.io/v1",
      "apiextensions.k8s.io/v1",
    ]),
  );
  expect((await api.get(`/apis/${WIDGET_GROUP}`)).body).toMatchObject({ kind: "APIGroup", name: WIDGET_GROUP });
});

it.each([
  [
    "/api/v1",
    ["configmaps", "events", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "secrets"],
  ],
  [
    "/apis/storage.k8s.io/v1",
    ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
  ],
  ["/apis/coordination.k8s.io/v1", ["leases"]],
  ["/apis/apiextensions.k8s.io/v1", ["customresourcedefinitions"]],
])("%s serves the kinds that Tidemark uses", async (path, plurals) => {
  const { body } = await api.get(path);
  expect(body["resources"].map(({ name }) => name)).toEqual(expect.arrayContaining(plurals));
});

it("a resource tells its kind, scope, short names and verbs, and its status is one of its own", async () => {
  const { body } = await api.get(`/apis/${WIDGET_API_VERSION}`);
  const resources = body["resources"];
  expect(resources.find(({ name }) => name === "widgets")).toMatchObject({
    singularName: "widget",
    namespaced: true,
    kind: "Widget",
    shortNames: ["widgets1"],
    verbs: expect.arrayContaining(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
  });
  expect(resources.find(({ name }) => name === "widgets/status")?.["verbs"]).toEqual(["get", "patch", "update"]);
});

it("/openapi/v3 leads to each group's schemas, where a patch takes fieldValidation", async () => {
  const { body: index } = await api.get("/openapi/v3");
  const { body } = await api.get(index.paths[`apis/${WIDGET_API_VERSION}`]?.serverRelativeURL ?? "/absent");
  const schema = body["components"].schemas["dev.tidemark.contract.v1.Widget"];
  expect(schema?.["x-kubernetes-group-version-kind"]).toEqual([{ group: WIDGET_GROUP, version: "v1", kind: "Widget" }]);
  expect(schema?.properties.spec.properties.size).toMatchObject({ type: "integer", minimum: 1 });
  const path = body["paths"][`/apis/${WIDGET_API_VERSION}/namespaces/{namespace}/widgets/{name}`];
  expect(path?.patch.parameters.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["fieldValidation", "fieldManager", "force"]),
  );
});
