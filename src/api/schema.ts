// Building blocks of our kinds' schemas: what OpenAPI cannot say in a type is said as a CEL rule in the metadata.
import { z } from "zod";

/** A rule for x-kubernetes-validations. */
export interface CelRule {
  rule: string;
  message: string;
  /** CEL that gives the message with its figures; `message` is what is said where it fails. */
  messageExpression?: string;
  /** The field that is at fault, from the rule's own node: ".max". */
  fieldPath?: string;
}

/** Extra OpenAPI keys of a schema node, merged into the CRD by src/api/crd.ts. */
export interface NodeExtensions {
  description?: string;
  default?: unknown;
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

/** A size: a non-negative quantity string, e.g. 10Gi. The description gets its unit here, as below. */
export const quantity = (description: string, ...rules: CelRule[]) =>
  z
    .string()
    .regex(QUANTITY_PATTERN)
    .max(32)
    .meta({ description: `${description} A size in bytes, such as 500Mi or 10Gi.`, ...checkedBy(rules) });
/** A duration string, e.g. 1h30m. */
export const duration = (description: string, ...rules: CelRule[]) =>
  z
    .string()
    .regex(DURATION_PATTERN)
    .max(32)
    .meta({ description: `${description} A duration in ms, s, m, h and d, such as 1h30m.`, ...checkedBy(rules) });
/** A percentage string, e.g. 60%. */
export const percent = (description: string, ...rules: CelRule[]) =>
  z
    .string()
    .regex(PERCENT_PATTERN)
    .max(16)
    .meta({ description: `${description} A percentage, such as 60%.`, ...checkedBy(rules) });
/** A CEL expression; it is compiled by the policy-engine, not by the schema. */
export const celExpression = (description: string) => z.string().min(1).max(4096).meta({ description });
/** RFC 3339, as the API server writes it. */
export const timestamp = (description: string) =>
  z
    .string()
    .max(40)
    .meta({ description: `${description} A time of RFC 3339, such as 2026-11-21T15:00:00Z.`, format: "date-time" });
/** metadata.generation at the time of a report. */
export const observedGeneration = z.int().min(0).meta({
  description: "The metadata.generation that this status was written for; an older one tells of an older spec.",
});

/** Beyond it numbers end to be exact: a record that carries more was not written by a leader. */
export const EPOCH_MAX = 2 ** 52 - 1;
/** The number of a leader. */
export const epochNumber = (description: string) => z.int().min(0).max(EPOCH_MAX).meta({ description });

function checkedBy(rules: CelRule[]): NodeExtensions {
  return rules.length === 0 ? {} : { "x-kubernetes-validations": rules };
}

/** On an object: once the field is set, it keeps its value. */
export function stays(field: string): CelRule {
  return {
    rule: `!has(oldSelf.${field}) || (has(self.${field}) && self.${field} == oldSelf.${field})`,
    message: `${field} never changes: it says what the data is`,
    fieldPath: `.${field}`,
  };
}

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

// What the API server takes of a selector. The policy-engine reads longer ones, too: one that was taken before still selects.
/** Kubernetes' own bounds of a label: a prefix, a slash and a name; and a value. */
const LABEL_KEY_MAX = 317;
const LABEL_VALUE_MAX = 63;
const LABEL_TERMS_MAX = 128;
const SELECTOR_VALUES_MAX = 256;

const labelRequirement = z.object({
  key: z.string().meta({ description: "The label that is asked about.", maxLength: LABEL_KEY_MAX }),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]).meta({
    description: "How the label is compared: with values (In, NotIn), or by its presence (Exists, DoesNotExist).",
  }),
  values: z
    .array(z.string().meta({ description: "A value of the label.", maxLength: LABEL_VALUE_MAX }))
    .meta({
      description: "What In and NotIn compare with; absent for Exists and DoesNotExist.",
      maxItems: LABEL_TERMS_MAX,
    })
    .optional(),
});

/** `description` says what is selected, and what an absent selector means. */
export const labelSelector = (description: string) =>
  z
    .object({
      matchLabels: z
        .record(
          z.string(),
          z.string().meta({ description: "The value that the label must have.", maxLength: LABEL_VALUE_MAX }),
        )
        .meta({
          description: "Labels with the values that they must have.",
          maxProperties: LABEL_TERMS_MAX,
          "x-kubernetes-validations": [
            { rule: `self.all(key, key.size() <= ${LABEL_KEY_MAX})`, message: "no label has so long a key" },
          ],
        })
        .optional(),
      matchExpressions: z
        .array(labelRequirement.meta({ description: "What must hold of one label." }))
        .max(32)
        .meta({
          description: "What must hold of labels beyond equality.",
          "x-kubernetes-validations": [
            {
              rule: `self.map(term, has(term.values) ? term.values.size() : 0).sum() <= ${SELECTOR_VALUES_MAX}`,
              message: `there are more than ${SELECTOR_VALUES_MAX} values in all terms together`,
            },
          ],
        })
        .optional(),
    })
    .meta({
      description: `${description} A Kubernetes label selector: all of its terms must hold.`,
      "x-kubernetes-map-type": "atomic",
    });
export type LabelSelector = z.infer<ReturnType<typeof labelSelector>>;

export const condition = z
  .object({
    type: z.string().max(316).meta({ description: "What it is about: Ready, Reconciling or Stalled." }),
    status: z.enum(["True", "False", "Unknown"]).meta({ description: "Whether it holds." }),
    reason: z.string().min(1).max(1024).meta({ description: "Why, in one word of docs/reference/reasons.md." }),
    message: z.string().max(32768).meta({ description: "Why, in a sentence, with figures and what to do." }),
    lastTransitionTime: timestamp("When the status last changed."),
    observedGeneration: observedGeneration.optional(),
  })
  .meta({ description: "A kstatus condition." });
export type Condition = z.infer<typeof condition>;

export const conditions = keyedList(condition, ["type"], 16, "Ready, Reconciling and Stalled, as kstatus reads them.");
