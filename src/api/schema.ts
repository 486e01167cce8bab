// Building blocks of our kinds' schemas: what OpenAPI cannot say in a type is said as a CEL rule in the metadata.
import { z } from "zod";

/** A rule for x-kubernetes-validations. */
export interface CelRule {
  rule: string;
  message: string;
}

/** Extra OpenAPI keys of a schema node, merged into the CRD by src/api/crd.ts. */
export interface NodeExtensions {
  description?: string;
  "x-kubernetes-validations"?: CelRule[];
  "x-kubernetes-list-type"?: "map" | "set" | "atomic";
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-int-or-string"?: true;
  "x-kubernetes-preserve-unknown-fields"?: true;
  "x-kubernetes-map-type"?: "atomic" | "granular";
}

export const NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const QUANTITY_PATTERN = /^[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$/;
const DURATION_PATTERN = /^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$/;
const PERCENT_PATTERN = /^[0-9]+(\.[0-9]+)?%$/;

/** A size: a non-negative quantity string, e.g. 10Gi. */
export const quantity = (description: string) => z.string().regex(QUANTITY_PATTERN).max(32).meta({ description });
/** A duration string, e.g. 1h30m. */
export const duration = (description: string) => z.string().regex(DURATION_PATTERN).max(32).meta({ description });
/** A percentage string, e.g. 60%. */
export const percent = (description: string) => z.string().regex(PERCENT_PATTERN).max(16).meta({ description });
/** A CEL expression; it is compiled by the policy-engine, not by the schema. */
export const celExpression = (description: string) => z.string().min(1).max(4096).meta({ description });
/** RFC 3339, as the API server writes it. */
export const timestamp = (description: string) => z.string().max(40).meta({ description, format: "date-time" });

/** A list of objects that is merged by its keys. */
export function keyedList<T extends z.ZodType>(item: T, keys: string[], maxItems: number, description: string) {
  return z
    .array(item)
    .max(maxItems)
    .meta({
      description,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": keys,
    } satisfies NodeExtensions);
}

export const labelSelector = z
  .object({
    matchLabels: z.record(z.string(), z.string()).optional(),
    matchExpressions: z
      .array(
        z.object({
          key: z.string(),
          operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
          values: z.array(z.string()).optional(),
        }),
      )
      .max(32)
      .optional(),
  })
  .meta({ description: "A Kubernetes label selector; all of its terms must hold.", "x-kubernetes-map-type": "atomic" });
export type LabelSelector = z.infer<typeof labelSelector>;

export const condition = z
  .object({
    type: z.string().max(316),
    status: z.enum(["True", "False", "Unknown"]),
    reason: z.string().min(1).max(1024),
    message: z.string().max(32768),
    lastTransitionTime: timestamp("When the status last changed."),
    observedGeneration: z.int().min(0).optional(),
  })
  .meta({ description: "A kstatus condition." });
export type Condition = z.infer<typeof condition>;

export const conditions = keyedList(condition, ["type"], 16, "Ready, Reconciling and Stalled, as kstatus reads them.");
