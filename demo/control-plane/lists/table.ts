// metav1.Table: what `kubectl get` shows. Columns are the kind's, cells are computed by the server.

import type { ResourceKind } from "../kinds/resource-kind.ts";
import type { JsonObject } from "../store/json.ts";
import type { StoredObject } from "../store/stored-object.ts";
import { displayName } from "./built-in-columns.ts";

/** What of the object each row carries in addition to its cells. */
export type IncludeObject = "None" | "Metadata" | "Object";

const TABLE = { kind: "Table", apiVersion: "meta.k8s.io/v1" } as const;

export interface TableOptions {
  readonly include: IncludeObject;
  /** A watch sends the columns with its first event only. */
  readonly headers: boolean;
  readonly nowMs: number;
}

export function tableOf(
  kind: ResourceKind,
  objects: readonly StoredObject[],
  metadata: JsonObject,
  options: TableOptions,
): JsonObject {
  return {
    ...TABLE,
    metadata,
    columnDefinitions: options.headers ? columnDefinitions(kind) : null,
    rows: objects.map((object) => rowOf(kind, object, options)),
  };
}

function columnDefinitions(kind: ResourceKind): JsonObject[] {
  const name = { name: "Name", type: "string", format: "name", description: "The object's name.", priority: 0 };
  const others = kind.columns.map((column) => ({
    name: column.name,
    // Ages are sent as text: "5m".
    type: column.type === "date" ? "string" : column.type,
    format: column.format ?? "",
    description: column.description ?? "",
    priority: column.priority ?? 0,
  }));
  return kind.kind === "Event" && !kind.custom ? [...others] : [name, ...others];
}

function rowOf(kind: ResourceKind, object: StoredObject, { include, nowMs }: TableOptions): JsonObject {
  const cells = kind.columns.map((column) => column.cell(object, nowMs));
  const row = kind.kind === "Event" && !kind.custom ? cells : [displayName(object), ...cells];
  if (include === "None") return { cells: row };
  return { cells: row, object: include === "Object" ? object : partialMetadata(object) };
}

/** The object without anything but its metadata. */
export function partialMetadata(object: StoredObject): JsonObject {
  return { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata };
}
