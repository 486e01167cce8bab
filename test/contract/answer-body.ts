// What the cases read of an answer, as if every field were there: a case that reads a field that is missing fails by that.

export interface BodyMetadata {
  name: string;
  namespace: string;
  uid: string;
  resourceVersion: string;
  generation: number;
  creationTimestamp: string;
  deletionTimestamp: string | undefined;
  labels: Record<string, string> | undefined;
  annotations: Record<string, string>;
  finalizers: string[];
  ownerReferences: { name: string }[];
  managedFields: BodyOwner[];
  /** Of a list. */
  continue: string | undefined;
}

export interface BodyOwner {
  manager: string;
  operation: string;
  subresource: string;
  fieldsV1: Record<string, unknown>;
}

export interface BodyCause {
  reason: string;
  message: string;
  field: string;
}

export interface BodySpec {
  [field: string]: unknown;
  size: number;
  tags: string[];
}

export interface BodyStatus {
  phase: string;
  conditions: { type: string; status: string }[];
}

export interface BodyColumn {
  name: string;
  type: string;
  priority: number;
}

export interface BodyRow {
  cells: unknown[];
  object: unknown;
}

export interface BodyResource {
  name: string;
  verbs: string[];
}

export interface BodyOperation {
  parameters: { name: string }[];
}

export interface BodySchema {
  "x-kubernetes-group-version-kind": unknown;
  properties: { spec: { properties: Record<string, unknown> } };
}

export interface AnswerBody {
  kind: string;
  apiVersion: string;
  metadata: BodyMetadata;
  spec: BodySpec;
  status: BodyStatus;
  data: Record<string, string>;
  items: AnswerBody[];
  /** Of a Status. */
  code: number;
  reason: string;
  message: string;
  details: { causes: BodyCause[] };
  /** Of a Table. */
  columnDefinitions: BodyColumn[];
  rows: BodyRow[];
  /** Of discovery. */
  major: string;
  gitVersion: string;
  versions: string[];
  groups: { preferredVersion: { groupVersion: string } }[];
  resources: BodyResource[];
  /** Of OpenAPI: the index's, and a document's. */
  paths: Record<string, { serverRelativeURL: string; patch: BodyOperation }>;
  components: { schemas: Record<string, BodySchema> };
  /** Of an answer that is no JSON. */
  text: string;
}

/** One line of a watch. */
export interface WatchEvent {
  type: string;
  object: AnswerBody;
}
