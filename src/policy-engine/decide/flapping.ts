// A shrink after which a rule would extend again is no saving. Before one is made, the Extend rules are asked about the facts that
// it predicts, with a tenth more in use, and the size is raised until none of them holds.

import { predictSize } from "../facts/prediction.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { scopeOf } from "../rules/rule-scope.ts";
import { minAvailableBytes } from "../sizing/headroom.ts";
import { roundDownToMiB, roundUpToMiB } from "../sizing/resizing.ts";
import type { Question } from "./question.ts";

const MARGIN_FACTOR = 1.1;
/** Halvings of the span between the wanted and the largest size: the result is at most 1/256 of it too large. */
const MAX_HALVINGS = 8;

export interface SteadySize {
  /** The smallest steady size from wantedBytes up to largestBytes; undefined: there is none. */
  readonly sizeBytes: number | undefined;
  /** What would extend it again at the last size that was not steady: a rule's name, or "minAvailable"; undefined: nothing. */
  readonly obstacle: string | undefined;
}

export function leastSteadySize(
  question: Question,
  policy: CompiledPolicy,
  wantedBytes: number,
  largestBytes: number,
): SteadySize {
  let obstacle = whatWouldExtend(question, policy, wantedBytes);
  if (obstacle === undefined) return { sizeBytes: wantedBytes, obstacle };
  let steadyBytes = roundDownToMiB(largestBytes);
  const atLargest = whatWouldExtend(question, policy, steadyBytes);
  if (atLargest !== undefined) return { sizeBytes: undefined, obstacle: atLargest };
  let flappingBytes = wantedBytes;
  for (let i = 0; i < MAX_HALVINGS; i += 1) {
    const middleBytes = roundUpToMiB((flappingBytes + steadyBytes) / 2);
    if (middleBytes >= steadyBytes) break;
    const atMiddle = whatWouldExtend(question, policy, middleBytes);
    if (atMiddle === undefined) steadyBytes = middleBytes;
    else [flappingBytes, obstacle] = [middleBytes, atMiddle];
  }
  return { sizeBytes: steadyBytes, obstacle };
}

// A rule that cannot be told on the predicted facts counts as one that would extend.
function whatWouldExtend({ facts }: Question, policy: CompiledPolicy, sizeBytes: number): string | undefined {
  const predicted = predictSize(facts, sizeBytes, MARGIN_FACTOR);
  const { reading, growthBytesPerSecond } = predicted.filesystem;
  if (reading === undefined) return "minAvailable";
  if (reading.availableBytes < minAvailableBytes(policy.limits, reading.capacityBytes, growthBytesPerSecond))
    return "minAvailable";
  const scope = scopeOf(predicted);
  return policy.rules.find((rule) => {
    if (rule.action !== "Extend") return false;
    const result = rule.when.evaluate(scope);
    return !result.ok || result.value;
  })?.name;
}
