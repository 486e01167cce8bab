// Creating, reading, replacing: identity, versions, generations, status.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { type ApiClient, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

describe("creating", () => {
  it("answers 201 with the identity that the server gave the object", async () => {
    const { code, body } = await api.post(widgets, widget("created"));
    expect(code).toBe(201);
    expect(body["metadata"]).toMatchObject({ name: "created", generation: 1 });
    expect(body["metadata"].uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(body["metadata"].resourceVersion).toMatch(/^\d+$/);
    expect(body["metadata"].creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect((await api.get(`${widgets}/created`)).body).toEqual(body);
  });

  it("refuses a name that is taken with 409 AlreadyExists, naming it", async () => {
    await api.post(widgets, widget("taken"));
    const { code, body } = await api.post(widgets, widget("taken"));
    expect(code).toBe(409);
    expect(body).toMatchObject({
      kind: "Status",
      status: "Failure",
      reason: "AlreadyExists",
      message: 'widgets.contract.tidemark.dev "taken" already exists',
      details: { name: "taken", group: "contract.tidemark.dev", kind: "widgets" },
      code: 409,
    });
  });

  it("makes a name from generateName", async () => {
    const { body } = await api.post(configMaps, { ...configMap(""), metadata: { generateName: "made-" } });
    expect(body["metadata"].name).toMatch(/^made-[a-z0-9]{5}$/);
  });

  it.each(["Upper", "under_score", "-dash", ""])("refuses the name %j with 422", async (name) => {
    const { code, body } = await api.post(configMaps, configMap(name));
    expect(code).toBe(422);
    expect(body).toMatchObject({
      reason: "Invalid",
      details: { causes: [{ field: expect.stringContaining("metadata.") }] },
    });
  });

  it("refuses a label value that is none with 422", async () => {
    const { code, body } = await api.post(configMaps, configMap("bad-label", {}, { labels: { a: "no spaces" } }));
    expect(code).toBe(422);
    expect(body["details"].causes[0]?.field).toBe("metadata.labels");
  });

  it("refuses a namespace that does not exist with 404, naming it", async () => {
    const { code, body } = await api.post("/api/v1/namespaces/nowhere/configmaps", configMap("lost"));
    expect(code).toBe(404);
    expect(body["message"]).toBe('namespaces "nowhere" not found');
  });

  it("refuses an object that names another namespace than the path with 400", async () => {
    const { code } = await api.post(configMaps, configMap("elsewhere", {}, { namespace: "default" }));
    expect(code).toBe(400);
  });

  it("takes no status where status has a path of its own", async () => {
    const { body } = await api.post(widgets, { ...widget("no-status"), status: { phase: "Done" } });
    expect(body["status"]).toBeUndefined();
  });

  it("stores nothing in a dry run", async () => {
    expect((await api.post(`${widgets}?dryRun=All`, widget("dry"))).code).toBe(201);
    expect((await api.get(`${widgets}/dry`)).code).toBe(404);
  });

  it("reads YAML, too", async () => {
    const text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: from-yaml }\ndata: { a: "1" }\n';
    const { code, body } = await api.post(configMaps, text, { contentType: "application/yaml" });
    expect(code).toBe(201);
    expect(body["data"]).toEqual({ a: "1" });
  });

  it("keeps a secret's stringData as base64 data", async () => {
    const secrets = configMaps.replace("configmaps", "secrets");
    const { body } = await api.post(secrets, { metadata: { name: "s" }, stringData: { key: "value" } });
    expect(body).toMatchObject({ type: "Opaque", data: { key: "dmFsdWU=" } });
  });
});

describe("reading", () => {
  it("answers 404 with the resource and the name", async () => {
    const { code, body } = await api.get(`${widgets}/missing`);
    expect(code).toBe(404);
    expect(body).toMatchObject({
      reason: "NotFound",
      message: 'widgets.contract.tidemark.dev "missing" not found',
      details: { name: "missing", group: "contract.tidemark.dev", kind: "widgets" },
    });
  });
});

describe("replacing", () => {
  it("answers 409 Conflict when the object has moved on since it was read", async () => {
    const { body: first } = await api.post(widgets, widget("moved"));
    await api.put(`${widgets}/moved`, { ...first, spec: { size: 2 } });
    const { code, body } = await api.put(`${widgets}/moved`, { ...first, spec: { size: 3 } });
    expect(code).toBe(409);
    expect(body).toMatchObject({ reason: "Conflict", details: { name: "moved" } });
    expect(body["message"]).toBe(
      'Operation cannot be fulfilled on widgets.contract.tidemark.dev "moved": the object has been modified; please apply your changes to the latest version and try again',
    );
    expect((await api.get(`${widgets}/moved`)).body["spec"].size).toBe(2);
  });

  it("answers 409 Conflict for another object of the same name", async () => {
    const { body } = await api.post(widgets, widget("other-uid"));
    const other = { ...body, metadata: { ...body["metadata"], uid: "00000000-0000-0000-0000-000000000000" } };
    expect((await api.put(`${widgets}/other-uid`, other)).code).toBe(409);
  });

  it("wants a resourceVersion for custom objects, and none for config maps", async () => {
    await api.post(widgets, widget("unversioned"));
    expect((await api.put(`${widgets}/unversioned`, widget("unversioned"))).code).toBe(422);
    await api.post(configMaps, configMap("unversioned"));
    expect((await api.put(`${configMaps}/unversioned`, configMap("unversioned", { a: "1" }))).code).toBe(200);
  });

  it("answers 400 when the name in the object is not the one in the path", async () => {
    const { body } = await api.post(widgets, widget("named"));
    const renamed = { ...body, metadata: { ...body["metadata"], name: "renamed" } };
    expect((await api.put(`${widgets}/named`, renamed)).code).toBe(400);
  });

  it("answers 404 for an object that is not there", async () => {
    const { code } = await api.put(`${widgets}/absent`, widget("absent", {}, { resourceVersion: "1" }));
    expect(code).toBe(404);
  });

  it("raises the generation with the specification only", async () => {
    const { body } = await api.post(widgets, widget("generations"));
    const path = `${widgets}/generations`;
    const labelled = await api.patch(path, MERGE, { metadata: { labels: { a: "b" } } });
    expect(labelled.body["metadata"].generation).toBe(1);
    const resized = await api.patch(path, MERGE, { spec: { size: 2 } });
    expect(resized.body["metadata"].generation).toBe(2);
    expect(resized.body["metadata"].uid).toBe(body["metadata"].uid);
  });

  it("changes nothing, the version included, when nothing differs", async () => {
    const { body } = await api.post(widgets, widget("same"));
    const again = await api.put(`${widgets}/same`, body);
    expect(again.body["metadata"].resourceVersion).toBe(body["metadata"].resourceVersion);
  });
});

describe("status", () => {
  it("is written by its own path, which leaves the specification, the labels and the generation alone", async () => {
    const { body } = await api.post(widgets, widget("with-status"));
    const metadata = { ...body["metadata"], labels: { a: "b" } };
    const changed = { ...body, metadata, spec: { size: 9 }, status: { phase: "Done" } };
    const { code, body: written } = await api.put(`${widgets}/with-status/status`, changed);
    expect(code).toBe(200);
    expect(written).toMatchObject({ spec: { size: 1 }, status: { phase: "Done" }, metadata: { generation: 1 } });
    expect(written["metadata"].labels).toBeUndefined();
  });

  it("is not changed through the object's path", async () => {
    await api.post(widgets, widget("kept-status"));
    await api.patch(`${widgets}/kept-status/status`, MERGE, { status: { phase: "Done" } });
    const { body } = await api.patch(`${widgets}/kept-status`, MERGE, { spec: { size: 2 }, status: { phase: "Lost" } });
    expect(body).toMatchObject({ spec: { size: 2 }, status: { phase: "Done" } });
  });
});
