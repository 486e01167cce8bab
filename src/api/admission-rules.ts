// What of a policy the API server refuses although each field by itself could be: CEL rules for x-kubernetes-validations, each
// with the message that a user reads. The policy-engine checks the same when it compiles a policy, for those that got in
// before; a rule here must never refuse what the engine would carry out.
import type { CelRule } from "./schema.ts";

/** Zeros and a unit are nothing; what is unreadable is refused by its pattern. */
const SOMETHING = "!self.matches('^0[0.a-zA-Z%]*$')";

/** A size of which something can be made: not 0, and within what the engine counts in whole bytes. */
export const USABLE_SIZE: readonly CelRule[] = [
  {
    rule: SOMETHING,
    message: "0 is no size: write one such as 1Gi, or leave the field out",
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

/** A difference of nothing is no change. */
export const SOME_DIFFERENCE: CelRule = {
  rule: SOMETHING,
  message: "a change by 0 is none: write a percentage such as 25%, or a size such as 10Gi",
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
