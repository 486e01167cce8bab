// What works, but is hardly meant so: a sentence for each such place of a policy that compiles. It refuses nothing. Pure.
import { formatDuration } from "../../contracts/quantities/duration.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { lintReversed, lintSmallBytes } from "./comparison-lint.ts";
import { lintUnguardedLabels } from "./label-lint.ts";
import { type Lint, lintedPolicy } from "./linted-policy.ts";
import { lintShrinkSizes, lintStabilization } from "./shrink-lint.ts";
import { lintOwnTarget, lintShrinkIntoExtend } from "./target-lint.ts";

/** The longest time between two samples of a volume that its agent measures. */
const SAMPLING_MS = 1000;

const lintFor: Lint = ({ rules }) =>
  rules
    .filter(({ compiled: { forMs } }) => forMs > 0 && forMs < SAMPLING_MS)
    .map(
      ({ compiled: { name, forMs } }) =>
        `rule ${name}: for ${formatDuration(forMs)} is shorter than the ${formatDuration(SAMPLING_MS)} between two samples`,
    );

const LINTS: readonly Lint[] = [
  lintReversed,
  lintOwnTarget,
  lintShrinkIntoExtend,
  lintShrinkSizes,
  lintSmallBytes,
  lintUnguardedLabels,
  lintFor,
  lintStabilization,
];

/** `compiled`: the policy's, without problems. Throws CompileError on one that has some. */
export function lintPolicy(policy: AnyPolicy, compiled: CompiledPolicy): readonly string[] {
  const linted = lintedPolicy(policy, compiled);
  return LINTS.flatMap((lint) => lint(linted));
}
