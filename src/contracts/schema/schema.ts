// Building blocks of schemas: of our kinds, where what OpenAPI cannot say in a type is said as a CEL rule in the metadata, and of lists
// that others have written.
import * as z from "zod";

/** A rule for x-kubernetes-validations. */
interface CelRule {
  rule: string;
  message: string;
  /** CEL that gives the message with its figures; `message` is what is said where it fails. */
  messageExpression?: string;
  /** The field that is at fault, from the rule's own node: ".max". */
  fieldPath?: string;
}

/** Extra OpenAPI keys of a schema node, merged into the CRD by src/contracts/kinds/kinds.ts. */
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

/** How a text looks that a user writes. Of a `pattern` in a schema Kubernetes shows the regular expression, so it is a CEL rule here. */
interface TextForm {
  /** Without a backslash: it stands in a CEL text, too. */
  readonly pattern: string;
  /** What is said of another text: what to write instead, with an example. */
  readonly message: string;
}

const SIZE: TextForm = {
  pattern: "^[0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE])?$",
  message: "write a size in bytes, such as 500Mi or 10Gi",
};
const DURATION: TextForm = {
  pattern: "^([0-9]+([.][0-9]+)?(ms|s|m|h|d))+$",
  message: "write a duration in ms, s, m, h and d, such as 30s or 1h30m",
};
const PERCENT_PATTERN = /^[0-9]+([.][0-9]+)?%$/;
/** A share or a size. */
export const DIFFERENCE: TextForm = {
  pattern: "^[0-9]+([.][0-9]+)?(%|[KMGTPE]i|[kMGTPE])?$",
  message: "write a percentage such as 25%, or a size in bytes such as 10Gi",
};

/** A text of at most so many characters that users write, of this form and by these rules. */
export const writtenText = (
  { pattern, message }: TextForm,
  maxChars: number,
  description: string,
  ...rules: readonly CelRule[]
) =>
  z
    .string()
    .max(maxChars)
    .refine((text) => new RegExp(pattern).test(text), message)
    .meta({ description, ...checkedBy([{ rule: `self.matches('${pattern}')`, message }, ...rules]) });

/** A size that a process of ours reports: a non-negative quantity string, e.g. 10Gi. The description gets its unit here, as below. */
export const quantity = (description: string) =>
  z
    .string()
    .regex(new RegExp(SIZE.pattern))
    .max(32)
    .meta({ description: `${description} A size in bytes, such as 500Mi or 10Gi.` });
/** A size that a user writes. */
export const writtenSize = (description: string) =>
  writtenText(SIZE, 32, `${description} A size in bytes, such as 500Mi or 10Gi.`, ...USABLE_SIZE);
/** A duration string, e.g. 1h30m. */
export const duration = (description: string, ...rules: CelRule[]) =>
  writtenText(DURATION, 32, `${description} A duration in ms, s, m, h and d, such as 1h30m.`, ...rules);
/** A percentage string, e.g. 60%. The rule also says what a percentage looks like. */
export const percent = (description: string, rule: CelRule) =>
  z
    .string()
    .max(16)
    .refine((text) => PERCENT_PATTERN.test(text), rule.message)
    .meta({ description: `${description} A percentage, such as 60%.`, ...checkedBy([rule]) });
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
  description: "The metadata.generation that this status describes.",
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
  key: z.string().meta({ description: "The label key.", maxLength: LABEL_KEY_MAX }),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]).meta({
    description: "How the label is compared: with values (In, NotIn), or by its presence (Exists, DoesNotExist).",
  }),
  values: z
    .array(z.string().meta({ description: "A value of the label.", maxLength: LABEL_VALUE_MAX }))
    .meta({
      description: "The values for In and NotIn. Absent for Exists and DoesNotExist.",
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
          z.string().meta({ description: "The required value of the label.", maxLength: LABEL_VALUE_MAX }),
        )
        .meta({
          description: "Labels with their required values.",
          maxProperties: LABEL_TERMS_MAX,
          "x-kubernetes-validations": [
            { rule: `self.all(key, key.size() <= ${LABEL_KEY_MAX})`, message: "no label has so long a key" },
          ],
        })
        .optional(),
      matchExpressions: z
        .array(labelRequirement.meta({ description: "A requirement on one label." }))
        .max(32)
        .meta({
          description: "Requirements on labels beyond equality.",
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

const condition = z
  .object({
    type: z.string().max(316).meta({ description: "Ready, Reconciling or Stalled." }),
    status: z.enum(["True", "False", "Unknown"]).meta({ description: "True, False or Unknown." }),
    reason: z.string().min(1).max(1024).meta({ description: "The reason, one word from docs/reference/reasons.md." }),
    message: z.string().max(32768).meta({ description: "The reason in a sentence, with figures and what to do." }),
    lastTransitionTime: timestamp("When the status last changed."),
    observedGeneration: observedGeneration.optional(),
  })
  .meta({ description: "A kstatus condition." });
export type Condition = z.infer<typeof condition>;

export const conditions = keyedList(condition, ["type"], 16, "Ready, Reconciling and Stalled, as kstatus reads them.");

// A list in what others have written, whose length is checked before its items: zod says of each wrong item what is wrong with it,
// which takes far more time and memory than the item.

/** One that is longer is refused by its length alone. */
export function shortList<Item extends z.ZodType>(item: Item, limit: number) {
  return z.array(z.unknown()).max(limit).pipe(z.array(item));
}

// What of a policy the API server refuses although each field by itself could be: CEL rules for x-kubernetes-validations, each
// with the message that a user reads. The policy-engine checks the same when it compiles a policy, for those that got in
// before; a rule here must never refuse what the engine would carry out.

/** Zeros and a unit are nothing; what is unreadable is refused by its form. */
const SOMETHING = "!self.matches('^0[0.a-zA-Z%]*$')";

/** A size of which something can be made: not 0, and within what the engine counts in whole bytes. */
const USABLE_SIZE: readonly CelRule[] = [
  {
    rule: SOMETHING,
    message: "0 is not a size: write one such as 1Gi, or leave the field out",
  },
  {
    rule: "!isQuantity(self) || quantity(self).isLessThan(quantity('8Pi'))",
    message: "8Pi and more is larger than Tidemark handles",
  },
];

/** How much of a filesystem can be used after a change: at least 1%, and never all of it. */
export const USABLE_TARGET: CelRule = {
  rule: "self.matches('^[1-9][0-9]?([.][0-9]+)?%$')",
  message: "targetUsed must be at least 1% and less than 100%, such as 60%",
};

/** How full a thin pool may become before it grows: at least 1%, and never all of it. */
export const USABLE_THRESHOLD: CelRule = {
  rule: USABLE_TARGET.rule,
  message: "extendAt must be at least 1% and less than 100%, such as 80%",
};

/** A difference of nothing changes nothing. */
export const SOME_DIFFERENCE: CelRule = {
  rule: SOMETHING,
  message: "a change by 0 changes nothing: write a percentage such as 25%, or a size such as 10Gi",
};

/** On a rule: a shrink by a percentage leaves something. */
export const SHRINK_LEAVES_SOMETHING: CelRule = {
  rule: "self.action != 'Shrink' || !has(self.by) || !self.by.endsWith('%') || self.by.matches('^0*[0-9]{1,2}([.][0-9]+)?%$')",
  messageExpression: "'a shrink by ' + self.by + ' leaves nothing: write less than 100%'",
  message: "a shrink by a percentage must be by less than 100%",
  fieldPath: ".by",
};

/** Characters of all expressions of one policy: compiling them takes time from the decisions of the whole cluster. */
const EXPRESSION_CHARS_MAX = 32_768;

const CHARS_OF_VARIABLES = "(has(self.variables) ? self.variables.map(v, v.expression.size()).sum() : 0)";
const CHARS_OF_RULES =
  "(has(self.rules) ? self.rules.map(r, r.when.size() + (has(r.toExpression) ? r.toExpression.size() : 0) + (has(r.messageExpression) ? r.messageExpression.size() : 0)).sum() : 0)";

/** On a policy: its expressions are within the budget. The figure is the policy-engine's to say: here it would cost too much. */
export const EXPRESSIONS_WITHIN_BUDGET: CelRule = {
  rule: `${CHARS_OF_VARIABLES} + ${CHARS_OF_RULES} <= ${EXPRESSION_CHARS_MAX}`,
  message: `the expressions of this policy have more than ${EXPRESSION_CHARS_MAX} characters in all`,
};

/** A window that opens stays open. */
export const SOME_TIME: CelRule = {
  rule: SOMETHING,
  message: "a window of 0s never opens: write how long it stays open, such as 3h",
};

/** Two sizes of one object, by their paths: the first must not be larger than the second. */
export function notLarger(lower: string, upper: string): CelRule {
  return {
    rule: `${incomparable(lower, upper)} || !quantity(self.${lower}).isGreaterThan(quantity(self.${upper}))`,
    messageExpression: `'${lower} (' + self.${lower} + ') is larger than ${upper} (' + self.${upper} + ')'`,
    message: `${lower} is larger than ${upper}`,
    fieldPath: `.${lower}`,
  };
}

/** Two sizes of one object, by their paths: the first must be smaller than the second. */
export function smaller(lower: string, upper: string): CelRule {
  return {
    rule: `${incomparable(lower, upper)} || quantity(self.${lower}).isLessThan(quantity(self.${upper}))`,
    messageExpression: `'${lower} (' + self.${lower} + ') leaves nothing of ${upper} (' + self.${upper} + ')'`,
    message: `${lower} leaves nothing of ${upper}`,
    fieldPath: `.${lower}`,
  };
}

// A field that is absent contradicts nothing; one that is unreadable is refused at its own place.
function incomparable(one: string, other: string): string {
  return [one, other].flatMap((path) => [...absent(path), `!isQuantity(self.${path})`]).join(" || ");
}

function absent(path: string): string[] {
  const parts = path.split(".");
  return parts.map((_part, i) => `!has(self.${parts.slice(0, i + 1).join(".")})`);
}
