// Sizes that make their own rule, or the opposite one, true again.
import { formatPercent } from "../../contracts/quantities/ratio.ts";
import { type Branch, type Comparison, holdsAt, isUsedRatio, looksTo } from "./branches.ts";
import { type Lint, type LintedRule, targetRatio } from "./linted-policy.ts";

/** An Extend to a fill at which it holds again, and a Shrink to one. */
export const lintOwnTarget: Lint = ({ rules }) =>
  rules.flatMap((rule) => {
    const target = targetRatio(rule);
    const isExtend = rule.compiled.action === "Extend";
    const mark = target === undefined ? undefined : markAt(rule, isExtend ? "full" : "empty", target);
    if (target === undefined || mark === undefined) return [];
    const side = isExtend ? "below" : "above";
    const change = isExtend ? "extend" : "shrink";
    return `rule ${rule.compiled.name}: targetUsed ${formatPercent(target)} is not ${side} its own ${formatPercent(mark.bound)}: it holds again after each ${change}`;
  });

/** A Shrink to a fill at which an Extend rule holds. */
export const lintShrinkIntoExtend: Lint = ({ rules }) =>
  rules
    .filter(({ compiled }) => compiled.action === "Shrink")
    .flatMap((shrink) => {
      const target = targetRatio(shrink);
      if (target === undefined) return [];
      const isNarrow = shrink.branches.every(({ hasMore }) => hasMore);
      return rules
        .filter(({ compiled }) => compiled.action === "Extend")
        .flatMap((extend) => {
          // Two rules that both ask for more may be about different volumes.
          const mark = markAt(extend, "full", target, isNarrow);
          if (mark === undefined) return [];
          return `rule ${shrink.compiled.name}: targetUsed ${formatPercent(target)} is not below the ${formatPercent(mark.bound)} of ${extend.compiled.name}: it is held (WouldFlap)`;
        });
    });

/** The comparison by which the rule holds at this fill, where that depends on nothing else that a change of the size changes. */
function markAt(
  { branches }: LintedRule,
  to: "full" | "empty",
  ratio: number,
  withoutMore = false,
): Comparison | undefined {
  for (const branch of branches) {
    if (withoutMore && branch.hasMore) continue;
    const mark = markOf(branch, to);
    if (mark !== undefined && branch.comparisons.filter(isUsedRatio).every((one) => holdsAt(one, ratio))) return mark;
  }
  return undefined;
}

/** The strictest of a branch's used ratios; undefined where it looks at more of how full a volume is. */
function markOf({ comparisons, hasMoreOfFill }: Branch, to: "full" | "empty"): Comparison | undefined {
  const ofFill = comparisons.filter((one) => looksTo(one) !== undefined);
  const marks = ofFill.filter((one) => looksTo(one) === to);
  if (marks.length === 0 || hasMoreOfFill || !ofFill.every(isUsedRatio)) return undefined;
  return marks.reduce((strictest, one) => ((to === "full") === one.bound > strictest.bound ? one : strictest));
}
