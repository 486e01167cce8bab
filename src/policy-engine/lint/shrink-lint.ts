// Shrinks that go against each other, or come sooner than people expect.
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatPercent } from "../../contracts/quantities/ratio.ts";
import { DEFAULT_STABILIZATION_MS } from "../policies/compile-policy.ts";
import { looksTo } from "./branches.ts";
import { type Lint, type LintedRule, targetRatio } from "./linted-policy.ts";

/** What a Shrink rule of one comparison looks at, up to which fill it holds, and what it shrinks to. */
interface SimpleShrink {
  readonly name: string;
  readonly fact: string;
  readonly upTo: number;
  readonly target: number;
}

function simpleShrink(rule: LintedRule): SimpleShrink | undefined {
  const target = targetRatio(rule);
  const [branch, another] = rule.branches;
  const [comparison, more] = branch?.comparisons ?? [];
  if (rule.compiled.action !== "Shrink" || target === undefined) return undefined;
  if (branch === undefined || another !== undefined || branch.hasMore) return undefined;
  if (comparison === undefined || more !== undefined || looksTo(comparison) !== "empty") return undefined;
  return { name: rule.compiled.name, fact: comparison.fact, upTo: comparison.bound, target };
}

/** Of several Shrink rules that hold the largest size counts: one is useless then, or more use means a smaller size. */
export const lintShrinkSizes: Lint = ({ rules }) => {
  const shrinks = rules.flatMap((rule) => simpleShrink(rule) ?? []);
  return shrinks.flatMap((larger) =>
    shrinks
      .filter(({ fact, target }) => fact === larger.fact && target > larger.target)
      .map((smaller) =>
        larger.upTo >= smaller.upTo
          ? `rule ${smaller.name} decides nothing: ${larger.name} holds with it, and asks for the larger size, which counts`
          : `rule ${larger.name} asks for a larger size than ${smaller.name}: over ${formatPercent(larger.upTo)} more use shrinks further`,
      ),
  );
};

export const lintStabilization: Lint = ({ rules, compiled: { shrink } }) => {
  if (shrink.stabilizationMs >= DEFAULT_STABILIZATION_MS || !rules.some(({ compiled }) => compiled.action === "Shrink"))
    return [];
  const [written, usual] = [shrink.stabilizationMs, DEFAULT_STABILIZATION_MS].map(formatDuration);
  return [
    `behavior.shrink.stabilization: ${written} is shorter than the default ${usual}: peaks before that do not stop a shrink`,
  ];
};
