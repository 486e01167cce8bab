// How much one policy, and all policies of one namespace, may ask to have compiled. Compiling is done on the thread that decides for
// the whole cluster, and who may write policies in one namespace must not hold it up.

import type { ClusterVolumePolicySpec } from "../../contracts/kinds/volume-policy.ts";
import { MAX_NAMESPACE_CHARS, MAX_NAMESPACE_RANGES } from "../cel/limits.ts";
import type { PolicyProblem, PolicySize } from "./compiled-policy.ts";

export const NO_SIZE: PolicySize = { chars: 0, ranges: 0 };

/** What a policy takes at least, however short its expressions are: reading it costs something, too. */
const LEAST_CHARS = 1024;
/** Making a maintenance window takes about as long as compiling so many characters. */
const WINDOW_CHARS = 512;

type Expressions = Pick<ClusterVolumePolicySpec, "rules" | "variables">;

/** Characters of all expressions of a policy. */
export function expressionChars({ rules = [], variables = [] }: Expressions): number {
  const texts = [
    ...variables.map(({ expression }) => expression),
    ...rules.flatMap(({ when, toExpression, messageExpression }) => [when, toExpression, messageExpression]),
  ];
  return texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

/** Characters that a policy takes of its namespace's budget: each window counts as 512, and no policy for less than 1,024. */
export function policyChars(spec: Expressions & Pick<ClusterVolumePolicySpec, "behavior">): number {
  const { extend, shrink } = spec.behavior ?? {};
  const windows = (extend?.windows?.length ?? 0) + (shrink?.windows?.length ?? 0);
  return Math.max(LEAST_CHARS, expressionChars(spec) + windows * WINDOW_CHARS);
}

export function sumOfSizes(a: PolicySize, b: PolicySize): PolicySize {
  return { chars: a.chars + b.chars, ranges: a.ranges + b.ranges };
}

/**
 * Why a namespace's policies are too much: `size` is that of the oldest ones, up to the one that is named `last`. It and all newer ones
 * are refused. Undefined: they are within the budget.
 */
export function namespaceRefusal(namespace: string, last: string, size: PolicySize): PolicyProblem | undefined {
  const upTo = `the policies of namespace ${namespace} up to ${last}`;
  const newer = "it and all newer ones are refused";
  if (size.chars > MAX_NAMESPACE_CHARS)
    return {
      field: "spec.rules",
      message: `${upTo} have ${size.chars} characters of expressions, over the limit of ${MAX_NAMESPACE_CHARS}: ${newer}`,
      hint: "delete policies that nothing needs, or write shorter expressions",
    };
  if (size.ranges > MAX_NAMESPACE_RANGES)
    return {
      field: "spec.rules",
      message: `${upTo} have patterns with ${size.ranges} ranges of characters, over the limit of ${MAX_NAMESPACE_RANGES}: ${newer}`,
      hint: "delete policies that nothing needs, or write patterns without classes of Unicode",
    };
  return undefined;
}
