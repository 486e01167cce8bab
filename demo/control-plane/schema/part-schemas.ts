// Schemas of the parts that several built-in kinds have: references, selectors, conditions.
import { atomic, atomicList, fields, integer, keyedList, stringMap, text, time } from "./schema.ts";

export const objectReference = atomic(
  fields({
    apiVersion: text,
    kind: text,
    namespace: text,
    name: text,
    uid: text,
    resourceVersion: text,
    fieldPath: text,
  }),
);
export const localReference = atomic(
  fields({ apiGroup: text, kind: text, name: text, namespace: text }, ["kind", "name"]),
);
export const secretReference = atomic(fields({ name: text, namespace: text }));
const selectorTerm = fields({ key: text, operator: text, values: atomicList(text) }, ["key", "operator"]);
export const labelSelector = atomic(fields({ matchLabels: stringMap, matchExpressions: atomicList(selectorTerm) }));
const condition = fields(
  {
    type: text,
    status: text,
    reason: text,
    message: text,
    lastTransitionTime: { ...time, nullable: true },
    lastProbeTime: { ...time, nullable: true },
    lastHeartbeatTime: { ...time, nullable: true },
    observedGeneration: integer,
  },
  ["type", "status"],
);
export const conditions = keyedList(condition, "type");
export const accessModes = atomicList(text);
const nodeSelectorTerm = atomic(
  fields({ matchExpressions: atomicList(selectorTerm), matchFields: atomicList(selectorTerm) }),
);
export const nodeSelector = atomic(fields({ nodeSelectorTerms: atomicList(nodeSelectorTerm) }, ["nodeSelectorTerms"]));
