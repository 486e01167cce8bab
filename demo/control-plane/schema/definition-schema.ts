// The schema of CustomResourceDefinition objects themselves; what they declare is read in custom-kind.ts.
import { anything, atomicList, fields, flag, integer, keyedList, type Schema, setOf, text, time } from "./schema.ts";

const column = fields({ name: text, type: text, format: text, description: text, priority: integer, jsonPath: text }, [
  "name",
  "type",
  "jsonPath",
]);

const version = fields(
  {
    name: text,
    served: flag,
    storage: flag,
    deprecated: flag,
    deprecationWarning: text,
    // As given: nested schemas are checked as a whole when the kind is added.
    schema: fields({ openAPIV3Schema: anything }),
    subresources: fields({ status: anything, scale: anything }),
    additionalPrinterColumns: atomicList(column),
    selectableFields: atomicList(fields({ jsonPath: text }, ["jsonPath"])),
  },
  ["name", "served", "storage"],
);

const names = fields(
  {
    kind: text,
    listKind: text,
    plural: text,
    singular: text,
    shortNames: atomicList(text),
    categories: atomicList(text),
  },
  ["plural", "kind"],
);

const condition = fields(
  { type: text, status: text, reason: text, message: text, lastTransitionTime: time, observedGeneration: integer },
  ["type", "status"],
);

const spec = fields(
  {
    group: text,
    names,
    scope: { ...text, enum: ["Cluster", "Namespaced"] },
    versions: atomicList(version),
    conversion: fields({ strategy: { ...text, enum: ["None", "Webhook"], default: "None" }, webhook: anything }, [
      "strategy",
    ]),
    preserveUnknownFields: flag,
  },
  ["group", "names", "scope", "versions"],
);

const status = fields({
  acceptedNames: names,
  conditions: keyedList(condition, "type"),
  storedVersions: setOf(text),
  observedGeneration: integer,
});

export const customResourceDefinitionSchema: {
  description: string;
  properties: Record<string, Schema>;
  required: string[];
} = {
  description: "CustomResourceDefinition adds a kind to the API.",
  properties: { spec, status },
  required: ["spec"],
};
