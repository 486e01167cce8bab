// Server-side apply and managed fields: who owns what, what a manager may change, what goes when it stops asking for it.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { AnswerBody, BodyOwner } from "./answer-body.ts";
import { APPLY, type ApiClient, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { configMap, startWidgets, WIDGET_API_VERSION, widget } from "./widget.ts";

let target: ContractTarget;
let api: ApiClient;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

function entry(body: AnswerBody, manager: string, operation = "Apply"): BodyOwner | undefined {
  const entries = body["metadata"].managedFields;
  return entries.find((each) => each["manager"] === manager && each["operation"] === operation);
}

describe("applying", () => {
  it("creates with 201, changes with 200, and again changes nothing", async () => {
    const path = `${widgets}/created`;
    const first = await api.apply(path, "one", widget("created", { size: 3 }));
    expect(first.code).toBe(201);
    const second = await api.apply(path, "one", widget("created", { size: 4 }));
    expect(second.code).toBe(200);
    expect(second.body["spec"].size).toBe(4);
    const third = await api.apply(path, "one", widget("created", { size: 4 }));
    expect(third.body["metadata"].resourceVersion).toBe(second.body["metadata"].resourceVersion);
  });

  it("takes YAML", async () => {
    const text = `apiVersion: ${WIDGET_API_VERSION}\nkind: Widget\nmetadata: { name: yaml }\nspec: { size: 2 }\n`;
    const { code, body } = await api.patch(`${widgets}/yaml?fieldManager=one`, APPLY, text);
    expect(code).toBe(201);
    expect(body["spec"].size).toBe(2);
  });

  it("wants a field manager: 422", async () => {
    const { code, body } = await api.patch(`${widgets}/nobody`, APPLY, widget("nobody"));
    expect(code).toBe(422);
    expect(body["message"]).toContain("fieldManager");
  });

  it("records the stated fields, but no defaults, as owned by the manager", async () => {
    const configuration = widget("recorded", { size: 3, parts: [{ name: "p", weight: 1 }], tags: ["t"] });
    const { body } = await api.apply(`${widgets}/recorded`, "one", {
      ...configuration,
      metadata: { name: "recorded", labels: { l: "v" } },
    });
    expect(body["spec"].color).toBe("red");
    expect(entry(body, "one")).toMatchObject({
      operation: "Apply",
      apiVersion: WIDGET_API_VERSION,
      fieldsType: "FieldsV1",
      fieldsV1: {
        "f:metadata": { "f:labels": { "f:l": {} } },
        "f:spec": {
          "f:size": {},
          "f:parts": { 'k:{"name":"p"}': { ".": {}, "f:name": {}, "f:weight": {} } },
          "f:tags": { 'v:"t"': {} },
        },
      },
    });
    expect(JSON.stringify(entry(body, "one"))).not.toContain("color");
  });

  it("to another's field is refused with 409, naming each manager and field", async () => {
    const path = `${widgets}/contested`;
    await api.apply(path, "one", widget("contested", { size: 3, code: "abc" }));
    const { code, body } = await api.apply(path, "two", widget("contested", { size: 4, code: "xyz" }));
    expect(code).toBe(409);
    expect(body["reason"]).toBe("Conflict");
    expect(body["message"]).toContain("Apply failed with 2 conflicts");
    const causes = body["details"].causes.map(({ reason, message, field }) => ({ reason, message, field }));
    expect(causes).toContainEqual({
      reason: "FieldManagerConflict",
      message: 'conflict with "one"',
      field: ".spec.size",
    });
    expect(causes).toContainEqual({
      reason: "FieldManagerConflict",
      message: 'conflict with "one"',
      field: ".spec.code",
    });
    expect((await api.get(path)).body["spec"].size).toBe(3);
  });

  it("by force takes the field over", async () => {
    const path = `${widgets}/forced`;
    await api.apply(path, "one", widget("forced", { size: 3, code: "abc" }));
    const { code, body } = await api.apply(path, "two", widget("forced", { size: 4 }), true);
    expect(code).toBe(200);
    expect(body["spec"]).toMatchObject({ size: 4, code: "abc" });
    expect(entry(body, "one")?.["fieldsV1"]["f:spec"]).toEqual({ "f:code": {} });
    expect(entry(body, "two")?.["fieldsV1"]["f:spec"]).toEqual({ "f:size": {} });
  });

  it("the same value shares the field, which stays until its last owner lets go", async () => {
    const path = `${widgets}/co-owned`;
    await api.apply(path, "one", widget("co-owned", { code: "abc" }));
    expect((await api.apply(path, "two", widget("co-owned", { code: "abc" }))).code).toBe(200);
    const kept = await api.apply(path, "one", widget("co-owned"));
    expect(kept.body["spec"].code).toBe("abc");
    const removed = await api.apply(path, "two", widget("co-owned"));
    expect(removed.body["spec"].code).toBeUndefined();
  });

  it("removes what the manager does not state any more, and nothing of others", async () => {
    const path = `${widgets}/shrinking`;
    await api.apply(path, "one", widget("shrinking", { code: "abc", port: 80, limits: { min: 1 } }));
    await api.apply(path, "two", { ...widget("shrinking"), spec: { size: 1, limits: { max: 9 } } });
    const { body } = await api.apply(path, "one", widget("shrinking", { port: 80 }));
    expect(body["spec"]).toEqual({ size: 1, color: "red", port: 80, limits: { max: 9 } });
  });

  it("removes a container with the last field in it", async () => {
    const path = `${widgets}/emptied`;
    await api.apply(path, "one", widget("emptied", { limits: { min: 1 }, parts: [{ name: "p" }] }));
    const { body } = await api.apply(path, "one", widget("emptied"));
    expect(body.spec).toEqual({ size: 1, color: "red" });
  });

  it("merges keyed lists by item: each manager has its own", async () => {
    const path = `${widgets}/keyed`;
    await api.apply(path, "one", widget("keyed", { parts: [{ name: "a", weight: 1 }] }));
    await api.apply(path, "two", widget("keyed", { parts: [{ name: "b", weight: 2 }] }));
    const both = await api.apply(path, "two", widget("keyed", { parts: [{ name: "b", weight: 3 }] }));
    expect(both.body["spec"].parts).toEqual([
      { name: "a", weight: 1, unit: "g" },
      { name: "b", weight: 3, unit: "g" },
    ]);
    const alone = await api.apply(path, "one", widget("keyed"));
    expect(alone.body["spec"].parts).toEqual([{ name: "b", weight: 3, unit: "g" }]);
  });

  it("merges sets by value and replaces atomic lists and maps as a whole", async () => {
    const path = `${widgets}/lists`;
    await api.apply(path, "one", widget("lists", { tags: ["a"], steps: ["s1", "s2"], selector: { k: "v", l: "w" } }));
    const sets = await api.apply(path, "two", widget("lists", { tags: ["b"] }));
    expect(sets.body["spec"].tags.sort()).toEqual(["a", "b"]);
    const refused = await api.apply(path, "two", widget("lists", { tags: ["b"], steps: ["s3"] }));
    expect(refused.code).toBe(409);
    const replaced = await api.apply(
      path,
      "two",
      widget("lists", { tags: ["b"], steps: ["s3"], selector: { m: "x" } }),
      true,
    );
    expect(replaced.body["spec"]).toMatchObject({ steps: ["s3"], selector: { m: "x" } });
    expect(replaced.body["spec"].selector).toEqual({ m: "x" });
  });

  it("to the status is ownership of its own", async () => {
    const path = `${widgets}/reported`;
    await api.apply(path, "one", widget("reported"));
    const condition = (type: string, status: string) => ({
      apiVersion: WIDGET_API_VERSION,
      kind: "Widget",
      metadata: { name: "reported" },
      status: { conditions: [{ type, status }] },
    });
    await api.apply(`${path}/status`, "engine", condition("Ready", "True"));
    const { code, body } = await api.apply(`${path}/status`, "operator", condition("Stalled", "False"));
    expect(code).toBe(200);
    expect(body["status"].conditions).toHaveLength(2);
    expect(body["metadata"].generation).toBe(1);
    expect(entry(body, "engine")?.["subresource"]).toBe("status");
    const refused = await api.apply(`${path}/status`, "operator", condition("Ready", "False"));
    expect(refused.code).toBe(409);
    expect(refused.body["details"].causes[0]?.message).toContain('"engine" with subresource "status"');
    expect((await api.get(path)).body["spec"].size).toBe(1);
  });

  it("to the status of an object that is not there is answered with 404", async () => {
    expect((await api.apply(`${widgets}/absent/status`, "one", widget("absent"))).code).toBe(404);
  });

  it("for an object of a certain uid does not create another: 409", async () => {
    const configuration = widget("of-uid", {}, { uid: "00000000-0000-0000-0000-000000000000" });
    expect((await api.apply(`${widgets}/of-uid`, "one", configuration)).code).toBe(409);
  });

  describe("for an object of another uid", () => {
    const uid = "00000000-0000-0000-0000-000000000000";

    it("is refused as a change of the uid: 422; where it names a version that has passed, with 409", async () => {
      const path = `${widgets}/of-other`;
      const { body } = await api.apply(path, "one", widget("of-other"));
      const { resourceVersion } = body["metadata"];
      const refused = await api.apply(path, "one", widget("of-other", { size: 2 }, { uid }), true);
      expect([refused.code, refused.body["details"].causes[0]?.field]).toEqual([422, "metadata.uid"]);
      expect((await api.patch(path, MERGE, { metadata: { uid }, spec: { size: 2 } })).code).toBe(422);
      await api.apply(path, "one", widget("of-other", { size: 3 }));
      const stale = widget("of-other", { size: 2 }, { uid, resourceVersion });
      expect((await api.apply(path, "one", stale, true)).code).toBe(409);
      expect((await api.get(path)).body["spec"].size).toBe(3);
    });

    it("is written to the status of a custom resource all the same: a version alone keeps it from that", async () => {
      const path = `${widgets}/remade`;
      const { body } = await api.apply(path, "one", widget("remade"));
      const { resourceVersion } = body["metadata"];
      const status = { ...widget("remade", {}, { uid }), status: { phase: "Told" } };
      expect((await api.apply(`${path}/status`, "one", status, true)).code).toBe(200);
      const { metadata, status: told } = (await api.get(path)).body;
      expect([metadata.uid === uid, told.phase]).toEqual([false, "Told"]);
      const stale = { ...widget("remade", {}, { uid, resourceVersion }), status: { phase: "Stale" } };
      expect((await api.apply(`${path}/status`, "one", stale, true)).code).toBe(409);
    });

    it("replaces nothing: 409", async () => {
      const { body } = await api.post(widgets, widget("replaced"));
      const replacement = { ...body, metadata: { ...body["metadata"], uid } };
      expect((await api.put(`${widgets}/replaced`, replacement)).code).toBe(409);
    });
  });

  it("for a version that has passed is refused with 409, even by force", async () => {
    const { body } = await api.apply(`${widgets}/of-version`, "one", widget("of-version"));
    await api.apply(`${widgets}/of-version`, "one", widget("of-version", { size: 2 }));
    const { resourceVersion } = body["metadata"];
    const stale = widget("of-version", { size: 3 }, { resourceVersion });
    expect((await api.apply(`${widgets}/of-version`, "one", stale, true)).code).toBe(409);
  });

  it("refuses a field that the schema does not declare, naming it", async () => {
    const { code, body } = await api.apply(`${widgets}/undeclared`, "one", widget("undeclared", { sise: 1 }));
    expect(code).toBeGreaterThanOrEqual(400);
    expect(body["message"]).toContain("sise: field not declared in schema");
    expect((await api.get(`${widgets}/undeclared`)).code).toBe(404);
  });

  it("works for built-in kinds by their well-known keys", async () => {
    const path = `${configMaps}/built-in`;
    await api.apply(path, "one", {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "built-in", finalizers: ["example.com/a"] },
    });
    const { body } = await api.apply(path, "two", {
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "built-in", finalizers: ["example.com/b"], annotations: { n: "1" } },
      data: { k: "v" },
    });
    expect(body["metadata"].finalizers.sort()).toEqual(["example.com/a", "example.com/b"]);
    await api.patch(path, MERGE, { metadata: { finalizers: null } });
  });
});

describe("an ordinary write", () => {
  it("is recorded as an Update of the fields that it set, under the client's name", async () => {
    const { body } = await api.post(configMaps, configMap("updated", { a: "1" }), {
      userAgent: "tidemark-test/1.0 (linux)",
    });
    expect(entry(body, "tidemark-test", "Update")?.["fieldsV1"]).toEqual({ "f:data": { ".": {}, "f:a": {} } });
  });

  it("takes over what it changes, so that an apply of the old value is then a conflict", async () => {
    const path = `${configMaps}/overtaken`;
    await api.apply(path, "one", {
      apiVersion: "v1",
      ...configMap("overtaken", { a: "1", b: "1" }),
      kind: "ConfigMap",
    });
    const { body } = await api.patch(`${path}?fieldManager=editor`, MERGE, { data: { a: "2" } });
    expect(entry(body, "one")?.["fieldsV1"]).toEqual({ "f:data": { "f:b": {} } });
    expect(entry(body, "editor", "Update")?.["fieldsV1"]).toEqual({ "f:data": { "f:a": {} } });
    const refused = await api.apply(path, "one", { ...configMap("overtaken", { a: "1", b: "1" }) });
    expect(refused.code).toBe(409);
    expect(refused.body["details"].causes[0]?.message).toMatch(/^conflict with "editor" using v1/);
  });

  it("leaves nobody owning what it removes", async () => {
    const path = `${configMaps}/removed`;
    await api.apply(path, "one", configMap("removed", { a: "1", b: "1" }));
    const { body } = await api.patch(path, MERGE, { data: { a: null } });
    expect(entry(body, "one")?.["fieldsV1"]).toEqual({ "f:data": { "f:b": {} } });
  });
});
