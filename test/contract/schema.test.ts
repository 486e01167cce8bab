// What a CustomResourceDefinition's schema makes of objects: pruning, strictness, defaults, validation, CEL rules.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { untilRead } from "../harness/wait-for.ts";
import { type Answer, type ApiClient, type Json, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { schemaNode, startWidgets, WIDGET_API_VERSION, widget, widgetDefinition } from "./widget.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

let target: ContractTarget;
let api: ApiClient;
let widgets: string;
let configMaps: string;

beforeAll(async () => {
  ({ target, api, widgets, configMaps } = await startWidgets());
});

afterAll(() => target.close());

describe("an unknown field", () => {
  const unknown = (name: string) => widget(name, { sise: 1, parts: [{ name: "p", wait: 1 }] });

  it("is refused with 400 under fieldValidation=Strict, and all of them are named", async () => {
    const { code, body } = await api.post(`${widgets}?fieldValidation=Strict`, unknown("strict"));
    expect(code).toBe(400);
    expect(body["reason"]).toBe("BadRequest");
    expect(body["message"]).toContain("strict decoding error");
    expect(body["message"]).toContain('unknown field "spec.sise"');
    expect(body["message"]).toContain('unknown field "spec.parts[0].wait"');
  });

  it("is dropped with a Warning header by default", async () => {
    const { code, headers, body } = await api.post(widgets, unknown("warned"));
    expect(code).toBe(201);
    expect(body["spec"]).toEqual({ size: 1, color: "red", parts: [{ name: "p", unit: "g" }] });
    expect(headers.get("warning")).toContain('299 - "unknown field \\"spec.sise\\""');
  });

  it("is dropped silently under fieldValidation=Ignore", async () => {
    const { headers, body } = await api.post(`${widgets}?fieldValidation=Ignore`, unknown("ignored"));
    expect(body["spec"].sise).toBeUndefined();
    expect(headers.get("warning")).toBeNull();
  });

  it("is kept where the schema says so", async () => {
    const free = { any: { thing: [1, "two"] } };
    const { body } = await api.post(`${widgets}?fieldValidation=Strict`, widget("free", { free }));
    expect(body["spec"].free).toEqual(free);
  });

  it("in metadata is unknown, too", async () => {
    const { code } = await api.post(`${widgets}?fieldValidation=Strict`, widget("meta", {}, { lables: {} }));
    expect(code).toBe(400);
  });

  it("of a built-in kind is refused with 400 under fieldValidation=Strict", async () => {
    const { code } = await api.post(`${configMaps}?fieldValidation=Strict`, { metadata: { name: "c" }, dat: {} });
    expect(code).toBe(400);
  });
});

describe("a default", () => {
  it("fills an absent field, and an existing one that is null without being nullable", async () => {
    const { body } = await api.post(widgets, widget("defaulted", { color: null, note: null, parts: [{ name: "p" }] }));
    expect(body["spec"]).toEqual({ size: 1, color: "red", note: null, parts: [{ name: "p", unit: "g" }] });
  });

  it("of a status is there until a status is written, and whatever its author wrote", async () => {
    const definition = widgetDefinition("Unread");
    const first = { conditions: [{ type: "Ready", status: "Unknown" }] };
    schemaNode(definition, "status")["default"] = first;
    await api.post(DEFINITIONS, definition);
    const path = widgets.replace("widgets", "unreads");
    const unread = { ...widget("new"), kind: "Unread" };
    await untilRead(
      "the kind",
      () => api.get(path),
      ({ code }) => code === 200,
    );
    const { body } = await api.post(path, { ...unread, status: { phase: "Written" } });
    expect(body["status"]).toEqual(first);
    expect((await api.get(`${path}/new`)).body["status"]).toEqual(first);
    const status = { conditions: [{ type: "Ready", status: "True" }] };
    const applied = { apiVersion: WIDGET_API_VERSION, kind: "Unread", metadata: { name: "new" }, status };
    expect((await api.apply(`${path}/new/status`, "engine", applied)).body["status"]).toEqual(status);
  });
});

describe("validation", () => {
  it.each<[string, Json, string, string, string]>([
    ["a missing field", { size: undefined }, "spec.size", "FieldValueRequired", "Required value"],
    [
      "a wrong type",
      { size: "1" },
      "spec.size",
      "FieldValueTypeInvalid",
      'spec.size in body must be of type integer: "string"',
    ],
    [
      "a value outside an enum",
      { color: "blue" },
      "spec.color",
      "FieldValueNotSupported",
      'Unsupported value: "blue": supported values: "red", "green"',
    ],
    [
      "a number under its minimum",
      { size: 0 },
      "spec.size",
      "FieldValueInvalid",
      "Invalid value: 0: spec.size in body should be greater than or equal to 1",
    ],
    [
      "a number over its maximum",
      { size: 101 },
      "spec.size",
      "FieldValueInvalid",
      "spec.size in body should be less than or equal to 100",
    ],
    [
      "a string that does not match",
      { code: "AB" },
      "spec.code",
      "FieldValueInvalid",
      "Invalid value: \"AB\": spec.code in body should match '^[a-z]+$'",
    ],
    [
      "a string that is too long",
      { code: "abcdef" },
      "spec.code",
      "FieldValueTooLong",
      "Too long: may not be more than 5 bytes",
    ],
    [
      "a string that is too short",
      { code: "a" },
      "spec.code",
      "FieldValueInvalid",
      "spec.code in body should be at least 2 chars long",
    ],
    [
      "too many items",
      { tags: ["a", "b", "c", "d"] },
      "spec.tags",
      "FieldValueTooMany",
      "Too many: 4: must have at most 3 items",
    ],
    [
      "too few items",
      { steps: [] },
      "spec.steps",
      "FieldValueInvalid",
      "spec.steps in body should have at least 1 items",
    ],
    ["a set with a double", { tags: ["a", "a"] }, "spec.tags[1]", "FieldValueDuplicate", 'Duplicate value: "a"'],
    [
      "a keyed list with a double",
      { parts: [{ name: "p" }, { name: "p" }] },
      "spec.parts[1]",
      "FieldValueDuplicate",
      'Duplicate value: {"name":"p"}',
    ],
    [
      "what is neither integer nor string",
      { port: true },
      "spec.port",
      "FieldValueTypeInvalid",
      "must be of type integer,string",
    ],
    [
      "none of oneOf",
      { choice: {} },
      "<nil>",
      "FieldValueInvalid",
      "must validate one and only one schema (oneOf). Found none valid",
    ],
    [
      "two of oneOf",
      { choice: { a: "1", b: "2" } },
      "<nil>",
      "FieldValueInvalid",
      "must validate one and only one schema (oneOf)",
    ],
    ["a broken rule", { limits: { min: 2, max: 1 } }, "spec.limits", "FieldValueInvalid", "min must not be above max"],
  ])("answers %s with 422 and its cause", async (_case, spec, field, reason, message) => {
    const { code, body } = await api.post(widgets, widget("refused", spec));
    expect(code).toBe(422);
    expect(body).toMatchObject({
      reason: "Invalid",
      details: { name: "refused", group: "contract.tidemark.dev", kind: "Widget" },
    });
    const cause = body["details"].causes.find((each) => each["field"] === field && each["reason"] === reason);
    expect(cause?.["message"]).toContain(message);
    expect(body["message"]).toContain('Widget.contract.tidemark.dev "refused" is invalid: ');
    expect(body["message"]).toContain(`${field}: `);
  });

  it("lists all that is wrong at once", async () => {
    const { body } = await api.post(widgets, widget("refused", { size: 0, code: "AB", color: "blue" }));
    const fields = body["details"].causes.map(({ field }) => field);
    expect(fields.sort()).toEqual(["<nil>", "spec.code", "spec.color", "spec.size"]);
    expect(body["message"]).toContain("some validation rules were not checked because the object was invalid");
  });

  it.each<[string, Json]>([
    ["an integer where both are allowed", { port: 80 }],
    ["a string where both are allowed", { port: "http" }],
    ["one of oneOf", { choice: { a: "1" } }],
    ["a rule that holds", { limits: { min: 1, max: 1 } }],
    ["a rule about absent fields", { limits: { min: 5 } }],
  ])("accepts %s", async (_case, spec) => {
    const { code } = await api.post(`${widgets}?dryRun=All`, widget("accepted", spec));
    expect(code).toBe(201);
  });

  it("holds for patches and for status, too", async () => {
    await api.post(widgets, widget("patched"));
    expect((await api.patch(`${widgets}/patched`, MERGE, { spec: { size: 0 } })).code).toBe(422);
    expect((await api.patch(`${widgets}/patched/status`, MERGE, { status: { phase: 1 } })).code).toBe(422);
  });

  it("of a built-in kind refuses a wrong type with 400", async () => {
    expect((await api.post(configMaps, { metadata: { name: "typed" }, data: { a: 1 } })).code).toBe(400);
  });
});

describe("a transition rule", () => {
  it("compares with the value before, and says nothing about a first one", async () => {
    const path = `${widgets}/rising`;
    expect((await api.post(widgets, widget("rising", { epoch: 5 }))).code).toBe(201);
    expect((await api.patch(path, MERGE, { spec: { epoch: 6 } })).code).toBe(200);
    const { code, body } = await api.patch(path, MERGE, { spec: { epoch: 4 } });
    expect(code).toBe(422);
    expect(body["details"].causes).toEqual([
      { reason: "FieldValueInvalid", field: "spec.epoch", message: "Invalid value: 4: epoch never falls" },
    ]);
    expect((await api.get(path)).body["spec"].epoch).toBe(6);
  });
});

describe("a definition", () => {
  type Definition = ReturnType<typeof widgetDefinition>;
  const changed = (change: (definition: Definition) => void): Promise<Answer> => {
    const definition = widgetDefinition("Faulty");
    change(definition);
    return api.post(`${DEFINITIONS}?dryRun=All`, definition);
  };
  const ruled = (rule: string) =>
    changed((definition) => {
      schemaNode(definition, "spec")["x-kubernetes-validations"] = [{ rule }];
    });

  it("is established at once, with its names accepted", async () => {
    const { body } = await api.get(`${DEFINITIONS}/${widgetDefinition().metadata.name}`);
    const conditions = body["status"].conditions.map(({ type, status }) => [type, status]);
    expect(conditions).toEqual(
      expect.arrayContaining([
        ["NamesAccepted", "True"],
        ["Established", "True"],
      ]),
    );
    expect(body["status"]).toMatchObject({ acceptedNames: { kind: "Widget" }, storedVersions: ["v1"] });
  });

  it.each([
    ["does not parse", "self.size >"],
    ["names a field that the schema does not have", "self.sise > 1"],
    ["names a variable that there is not", "that.size > 1"],
    ["uses a function that there is not", "frobnicate(self.size)"],
    ["is no condition", "self.size + 1"],
  ])("with a rule that %s is refused with 422, naming the rule", async (_case, rule) => {
    const { code, body } = await ruled(rule);
    expect(code).toBe(422);
    const [cause] = body["details"].causes;
    expect(cause?.["field"]).toContain("x-kubernetes-validations[0].rule");
    expect(cause?.["message"]?.replaceAll("\\u003e", ">")).toContain(`"Rule":${JSON.stringify(rule)}`);
  });

  it("with a rule that holds together is accepted", async () => {
    expect((await ruled("self.size > 0 && (!has(self.tags) || self.tags.all(t, t != ''))")).code).toBe(201);
  });

  it("whose name is not plural.group is refused with 422", async () => {
    const { code, body } = await changed((definition) => {
      definition.metadata.name = "other.contract.tidemark.dev";
    });
    expect(code).toBe(422);
    expect(JSON.stringify(body.details.causes)).toContain("metadata.name");
  });

  it.each([
    ["without a type", "size", "type", "properties[size].type"],
    ["with an array without items", "steps", "items", "properties[steps].items"],
    ["with a keyed list without keys", "parts", "x-kubernetes-list-map-keys", "x-kubernetes-list-map-keys"],
  ])("with a schema %s is refused with 422", async (_case, field, keyword, place) => {
    const { code, body } = await changed((definition) => {
      delete schemaNode(definition, "spec", field)[keyword];
    });
    expect(code).toBe(422);
    expect(body.details.causes.map((cause) => cause.field).join()).toContain(place);
  });

  it("with a pattern that is none is refused with 422", async () => {
    const { code, body } = await changed((definition) => {
      schemaNode(definition, "spec", "code")["pattern"] = "(";
    });
    expect(code).toBe(422);
    expect(body.details.causes[0]?.field).toContain("properties[code].pattern");
  });

  it("that changes is in force for the next write", async () => {
    const definition = widgetDefinition("Gizmo");
    const path = `${DEFINITIONS}/${definition.metadata.name}`;
    await api.apply(path, "contract", definition, true);
    schemaNode(definition, "spec").properties = { extra: { type: "string" }, size: { type: "integer" } };
    expect((await api.apply(path, "contract", definition, true)).code).toBe(200);
    if (target.embedded) {
      const gizmos = `${widgets.replace("/widgets", "/gizmos")}?fieldValidation=Strict`;
      const { code, body } = await api.post(gizmos, { ...widget("g", { extra: "x" }), kind: "Gizmo" });
      expect(code).toBe(201);
      expect(body["spec"].extra).toBe("x");
    }
    await api.delete(path);
  });
});
