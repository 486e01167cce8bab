// From how many used bytes on a filesystem would be extended: what an agent needs to know to sample as often as it must, and no
// more often.

import type { Facts } from "../facts/facts.ts";
import { predictUse } from "../facts/prediction.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { scopeOf } from "../rules/rule-scope.ts";
import { upperBound } from "../sizing/bounds.ts";
import { minAvailableBytes } from "../sizing/headroom.ts";
import { roundDownToMiB } from "../sizing/resizing.ts";
import { Question } from "./question.ts";

/** Halvings: the answer is at most 1/1024 of the available bytes too high, and never above minAvailable's crossing. */
const MAX_HALVINGS = 10;

/**
 * The lowest usedBytes, at the present capacity and growth, at which an Extend rule holds or minAvailable is crossed. Undefined
 * where there is nothing to look out for: no policy, no reading, or no room to extend into. Assumes that a rule which holds at
 * some use holds above it too.
 */
export function nextExtendUsedBytes(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
): number | undefined {
  const { reading, growthBytesPerSecond, sizeBytes } = facts.filesystem;
  if (policy === undefined || policy.suspended || reading === undefined || !(reading.capacityBytes > 0))
    return undefined;
  const bound = upperBound(new Question(facts, policy, ceilings));
  if (!(roundDownToMiB(bound.bytes) > sizeBytes)) return undefined;
  const guardBytes = policy.guardsMinAvailable
    ? minAvailableBytes(policy.limits, reading.capacityBytes, growthBytesPerSecond)
    : 0;
  const crossingBytes = Math.max(0, reading.capacityBytes - guardBytes);
  if (reading.usedBytes >= crossingBytes) return crossingBytes;
  if (wouldExtend(facts, policy, reading.usedBytes)) return reading.usedBytes;
  let [quietBytes, firingBytes] = [reading.usedBytes, crossingBytes];
  for (let i = 0; i < MAX_HALVINGS && firingBytes - quietBytes > 1; i += 1) {
    const middleBytes = Math.floor((quietBytes + firingBytes) / 2);
    if (wouldExtend(facts, policy, middleBytes)) firingBytes = middleBytes;
    else quietBytes = middleBytes;
  }
  return firingBytes;
}

function wouldExtend(facts: Facts, policy: CompiledPolicy, usedBytes: number): boolean {
  const scope = scopeOf(predictUse(facts, usedBytes));
  return policy.rules.some((rule) => {
    if (rule.action !== "Extend") return false;
    const result = rule.when.evaluate(scope);
    return result.ok && result.value;
  });
}
