// How much one policy, and all policies of one namespace, may ask to have compiled. Compiling is done on the thread that decides for
// the whole cluster, and who may write policies in one namespace must not hold it up.
import type { ClusterVolumePolicySpec } from "../api/volume-policy.ts";

type Expressions = Pick<ClusterVolumePolicySpec, "rules" | "variables">;

/** Characters of all expressions of a policy. */
export function expressionChars({ rules = [], variables = [] }: Expressions): number {
  const texts = [
    ...variables.map(({ expression }) => expression),
    ...rules.flatMap(({ when, toExpression, messageExpression }) => [when, toExpression, messageExpression]),
  ];
  return texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
}
