// Whether a policy may be stored, by its own text alone. Pure.
import { lintPolicy } from "../lint/lint-policy.ts";
import { type AnyPolicy, compilePolicy } from "../policies/compile-policy.ts";
import type { PolicySelection } from "../policies/compiled-policy.ts";
import { refusalText } from "./refusal-text.ts";

export interface PolicyVerdict {
  /** Why it cannot work, in lines for a terminal; undefined: it may be stored. */
  readonly refusal: string | undefined;
  readonly warnings: readonly string[];
  /** What it selects. */
  readonly selection: PolicySelection;
}

/** Never throws for what a user wrote. */
export function checkPolicy(policy: AnyPolicy): PolicyVerdict {
  const compiled = compilePolicy(policy);
  const { problems, selection } = compiled;
  if (problems.length > 0) return { refusal: refusalText(policy, problems), warnings: [], selection };
  return { refusal: undefined, warnings: lintPolicy(policy, compiled), selection };
}
