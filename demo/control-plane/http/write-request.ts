// What a write says about itself, in addition to the object: where it goes, who writes, how strictly it is read.
import type { ResourceKind } from "../kinds/resource-kind.ts";
import type { ObjectAddress } from "../store/stored-object.ts";

export type FieldValidation = "Strict" | "Warn" | "Ignore";

export interface WriteRequest {
  readonly kind: ResourceKind;
  /** The name is empty in a creation that leaves it to the object. */
  readonly address: ObjectAddress;
  readonly subresource: "" | "status";
  readonly fieldManager: string;
  readonly fieldValidation: FieldValidation;
  /** Everything is checked, nothing is stored. */
  readonly dryRun: boolean;
  /** Filled during the write; sent as Warning headers. */
  readonly warnings: string[];
}
