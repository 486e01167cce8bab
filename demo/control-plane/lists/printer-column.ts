// A column of `kubectl get`: a CustomResourceDefinition's additionalPrinterColumns, or a built-in kind's own cell.

import { firstMatch, type JsonPath } from "../apply/json-path.ts";
import { isJsonObject } from "../store/json.ts";
import type { StoredObject } from "../store/stored-object.ts";
import { formatAge } from "./age.ts";

export type CellType = "string" | "integer" | "number" | "boolean" | "date";

export interface PrinterColumn {
  readonly name: string;
  readonly type: CellType;
  readonly format?: string;
  readonly description?: string;
  /** Above 0: shown with -o wide only. */
  readonly priority?: number;
  readonly cell: (object: StoredObject, nowMs: number) => unknown;
}

/** The cell of a JSONPath: its first match as the column's type, null where there is none. */
export function pathCell(path: JsonPath, type: CellType): PrinterColumn["cell"] {
  return (object, nowMs) => {
    const value = firstMatch(path, object);
    if (value === undefined || value === null) return null;
    if (type === "date") return typeof value === "string" ? formatAge(value, nowMs) : null;
    if (type === "string") return isJsonObject(value) || Array.isArray(value) ? JSON.stringify(value) : String(value);
    if (type === "boolean") return typeof value === "boolean" ? value : null;
    if (typeof value !== "number") return null;
    return type === "integer" ? Math.trunc(value) : value;
  };
}
