// Patches other than server-side apply: merge, JSON and strategic merge.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { type ApiClient, JSON_PATCH, MERGE, STRATEGIC } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let namespace: string;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, namespace, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

describe("a merge patch", () => {
  it("sets, replaces lists as a whole, and removes what it gives as null", async () => {
    await api.post(widgets, widget("merged", { code: "abc", tags: ["x"], port: 80 }));
    const { code, body } = await api.patch(`${widgets}/merged`, MERGE, {
      spec: { size: 5, code: null, tags: ["y", "z"] },
    });
    expect(code).toBe(200);
    expect(body["spec"]).toEqual({ size: 5, color: "red", tags: ["y", "z"], port: 80 });
  });

  it("that names a version which has passed is refused with 409", async () => {
    const { body } = await api.post(widgets, widget("versioned"));
    await api.patch(`${widgets}/versioned`, MERGE, { spec: { size: 2 } });
    const { resourceVersion } = body["metadata"];
    const { code } = await api.patch(`${widgets}/versioned`, MERGE, {
      metadata: { resourceVersion },
      spec: { size: 3 },
    });
    expect(code).toBe(409);
  });

  it("of an object that is not there is answered with 404", async () => {
    expect((await api.patch(`${widgets}/absent`, MERGE, { spec: { size: 2 } })).code).toBe(404);
  });

  it("that is no JSON is refused with 400", async () => {
    await api.post(widgets, widget("garbled"));
    expect((await api.patch(`${widgets}/garbled`, MERGE, "{")).code).toBe(400);
  });
});

describe("a JSON patch", () => {
  it("adds, replaces, removes, copies, moves and tests", async () => {
    await api.post(configMaps, configMap("json", { a: "1", b: "2" }, { annotations: { "x/y": "3" } }));
    const { code, body } = await api.patch(`${configMaps}/json`, JSON_PATCH, [
      { op: "test", path: "/data/a", value: "1" },
      { op: "replace", path: "/data/a", value: "one" },
      { op: "copy", from: "/data/a", path: "/data/c" },
      { op: "move", from: "/data/b", path: "/data/d" },
      { op: "remove", path: "/metadata/annotations/x~1y" },
      { op: "add", path: "/metadata/labels", value: { l: "v" } },
    ]);
    expect(code).toBe(200);
    expect(body["data"]).toEqual({ a: "one", c: "one", d: "2" });
    expect(body["metadata"]).toMatchObject({ labels: { l: "v" } });
    expect(body["metadata"].annotations ?? {}).toEqual({});
  });

  it("inserts into lists", async () => {
    await api.post(widgets, widget("inserted", { tags: ["a", "c"] }));
    const { body } = await api.patch(`${widgets}/inserted`, JSON_PATCH, [
      { op: "add", path: "/spec/tags/1", value: "b" },
    ]);
    expect(body["spec"].tags).toEqual(["a", "b", "c"]);
  });

  it.each([
    ["a failed test", [{ op: "test", path: "/data/a", value: "2" }]],
    ["a missing path", [{ op: "remove", path: "/data/none" }]],
  ])("with %s is refused with 422 and changes nothing", async (_case, patch) => {
    const { body: before } = await api.patch(`${configMaps}/steady?fieldManager=m`, "application/apply-patch+yaml", {
      ...configMap("steady", { a: "1" }),
    });
    expect((await api.patch(`${configMaps}/steady`, JSON_PATCH, patch)).code).toBe(422);
    expect((await api.get(`${configMaps}/steady`)).body["data"]).toEqual(before["data"]);
  });
});

describe("a strategic merge patch", () => {
  it("merges keyed lists by their key and deletes by directive", async () => {
    const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
    await api.post(claims, {
      metadata: { name: "claim", finalizers: ["example.com/a", "example.com/b"] },
      spec: { accessModes: ["ReadWriteOnce"], storageClassName: "none", resources: { requests: { storage: "1Gi" } } },
    });
    const status = (conditions: unknown[]) =>
      api.patch(`${claims}/claim/status`, STRATEGIC, { status: { conditions } });
    await status([
      { type: "Resizing", status: "True" },
      { type: "Other", status: "False" },
    ]);
    const merged = await status([{ type: "Resizing", status: "False" }]);
    const found = merged.body["status"].conditions.map((each: { type: string; status: string }) => [
      each.type,
      each.status,
    ]);
    expect(found.sort()).toEqual([
      ["Other", "False"],
      ["Resizing", "False"],
    ]);
    const removed = await status([{ type: "Other", $patch: "delete" }]);
    expect(removed.body["status"].conditions).toHaveLength(1);
    const unheld = await api.patch(`${claims}/claim`, STRATEGIC, {
      metadata: { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] },
    });
    expect(unheld.body["metadata"].finalizers).not.toContain("example.com/a");
    expect(unheld.body["metadata"].finalizers).toContain("example.com/b");
    await api.patch(`${claims}/claim`, MERGE, { metadata: { finalizers: null } });
  });

  it("of a custom object is refused with 415", async () => {
    await api.post(widgets, widget("custom"));
    const { code, body } = await api.patch(`${widgets}/custom`, STRATEGIC, { spec: { size: 2 } });
    expect(code).toBe(415);
    expect(body["reason"]).toBe("UnsupportedMediaType");
  });
});

describe("a claim", () => {
  it("may ask for more, and for nothing else than before", async () => {
    const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
    const { body } = await api.post(claims, {
      metadata: { name: "fixed" },
      spec: { accessModes: ["ReadWriteOnce"], storageClassName: "none", resources: { requests: { storage: "1Gi" } } },
    });
    expect(body["status"].phase).toBe("Pending");
    const { code } = await api.patch(`${claims}/fixed`, MERGE, { spec: { accessModes: ["ReadWriteMany"] } });
    expect(code).toBe(422);
  });
});
