// The kind that the suite defines for itself: one CustomResourceDefinition with everything a schema can ask for.
import { randomBytes } from "node:crypto";
import { untilRead } from "../harness/wait-for.ts";
import { ApiClient, type Json } from "./api-client.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";

export const WIDGET_GROUP = "contract.tidemark.dev";
export const WIDGET_API_VERSION = `${WIDGET_GROUP}/v1`;
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** A node of a schema, as a case changes it. */
export interface SchemaNode {
  [keyword: string]: unknown;
  properties?: Record<string, SchemaNode>;
}

const specSchema: SchemaNode = {
  type: "object",
  required: ["size"],
  properties: {
    size: { type: "integer", minimum: 1, maximum: 100 },
    color: { type: "string", enum: ["red", "green"], default: "red" },
    code: { type: "string", pattern: "^[a-z]+$", maxLength: 5, minLength: 2 },
    port: { "x-kubernetes-int-or-string": true },
    note: { type: "string", nullable: true },
    epoch: {
      type: "integer",
      "x-kubernetes-validations": [{ rule: "self >= oldSelf", message: "epoch never falls" }],
    },
    free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    tags: { type: "array", maxItems: 3, "x-kubernetes-list-type": "set", items: { type: "string" } },
    steps: { type: "array", minItems: 1, "x-kubernetes-list-type": "atomic", items: { type: "string" } },
    parts: {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
      items: {
        type: "object",
        required: ["name"],
        properties: { name: { type: "string" }, weight: { type: "integer" }, unit: { type: "string", default: "g" } },
      },
    },
    selector: {
      type: "object",
      "x-kubernetes-map-type": "atomic",
      additionalProperties: { type: "string" },
    },
    choice: {
      type: "object",
      properties: { a: { type: "string" }, b: { type: "string" } },
      oneOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    limits: {
      type: "object",
      properties: { min: { type: "integer" }, max: { type: "integer" } },
      "x-kubernetes-validations": [
        { rule: "!has(self.min) || !has(self.max) || self.min <= self.max", message: "min must not be above max" },
      ],
    },
  },
};

const statusSchema: SchemaNode = {
  type: "object",
  properties: {
    phase: { type: "string" },
    conditions: {
      type: "array",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["type"],
      items: {
        type: "object",
        required: ["type"],
        properties: { type: { type: "string" }, status: { type: "string" } },
      },
    },
  },
};

const wholeSchema: SchemaNode = { type: "object", properties: { spec: specSchema, status: statusSchema } };

/** The definition of a kind of this name, with the suite's schema. */
export function widgetDefinition(kind = "Widget") {
  const plural = `${kind.toLowerCase()}s`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${WIDGET_GROUP}` },
    spec: {
      group: WIDGET_GROUP,
      scope: "Namespaced",
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [`${kind.toLowerCase()}s1`],
      },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: "Size", type: "integer", jsonPath: ".spec.size" },
            { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
            { name: "State", type: "string", jsonPath: '.status.conditions[?(@.status=="True")].type' },
            { name: "Color", type: "string", jsonPath: ".spec.color", priority: 1 },
            { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
          ],
          schema: { openAPIV3Schema: structuredClone(wholeSchema) },
        },
      ],
    },
  };
}

/** The node at a path of fields in the schema of a definition. */
export function schemaNode(definition: ReturnType<typeof widgetDefinition>, ...path: string[]): SchemaNode {
  let node: SchemaNode | undefined = definition.spec.versions[0]?.schema.openAPIV3Schema;
  for (const field of path) node = node?.properties?.[field];
  if (node === undefined) throw new Error(`the schema has no field ${path.join(".")}`);
  return node;
}

export interface Widgets {
  readonly namespace: string;
  /** The paths of its collections. */
  readonly widgets: string;
  readonly configMaps: string;
}

/** What the suite runs against, with the kind served there. */
export async function startWidgets(): Promise<Widgets & { readonly target: ContractTarget; readonly api: ApiClient }> {
  const target = await startContractTarget();
  const api = new ApiClient(target.baseUrl);
  return { target, api, ...(await prepareWidgets(api)) };
}

/** Makes the kind served and gives a namespace of this run's own. Cases then share nothing with those of other files. */
export async function prepareWidgets(api: ApiClient): Promise<Widgets> {
  const definition = widgetDefinition();
  await api.apply(`${DEFINITIONS}/${definition.metadata.name}`, "contract", definition, true);
  const namespace = `contract-${randomBytes(4).toString("hex")}`;
  await api.post("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
  const widgets = `/apis/${WIDGET_API_VERSION}/namespaces/${namespace}/widgets`;
  await untilRead(
    "Widgets to be served",
    () => api.get(widgets),
    ({ code }) => code === 200,
  );
  await untilRead(
    "the schema of Widgets",
    () => api.get("/openapi/v3"),
    ({ body }) => body.paths[`apis/${WIDGET_API_VERSION}`] !== undefined,
  );
  return { namespace, widgets, configMaps: `/api/v1/namespaces/${namespace}/configmaps` };
}

export function widget(name: string, spec: Json = {}, metadata: Json = {}): Json {
  return {
    apiVersion: WIDGET_API_VERSION,
    kind: "Widget",
    metadata: { name, ...metadata },
    spec: { size: 1, ...spec },
  };
}

export function configMap(name: string, data: Json = {}, metadata: Json = {}): Json {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...metadata }, data };
}
