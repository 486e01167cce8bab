// One served kind: how it is addressed, what its objects look like, which rules hold for it. Built-in kinds and those
// that a CustomResourceDefinition adds are the same to the rest of the control plane.
import type { PrinterColumn } from "../lists/printer-column.ts";
import type { Schema } from "../schema/schema.ts";
import type { CompiledRules } from "../schema/validation-rules.ts";

export interface ResourceKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly listKind: string;
  readonly plural: string;
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly namespaced: boolean;
  /** Status is written through its own path only. */
  readonly hasStatus: boolean;
  /** metadata.generation counts changes of the specification. */
  readonly hasGeneration: boolean;
  /** A PUT without a resourceVersion is accepted. */
  readonly unconditionalUpdate: boolean;
  /** Added by a CustomResourceDefinition. */
  readonly custom: boolean;
  readonly schema: Schema;
  readonly rules: CompiledRules;
  readonly columns: readonly PrinterColumn[];
  /** Paths that a field selector may name, besides metadata.name and metadata.namespace. */
  readonly selectableFields: readonly string[];
}

/** "v1" or "tidemark.dev/v1alpha1": an object's apiVersion. */
export function apiVersionOf(kind: ResourceKind): string {
  return kind.group === "" ? kind.version : `${kind.group}/${kind.version}`;
}

/** "filesystems.tidemark.dev": what messages call the resource. */
export function resourceName(kind: ResourceKind): string {
  return kind.group === "" ? kind.plural : `${kind.plural}.${kind.group}`;
}
