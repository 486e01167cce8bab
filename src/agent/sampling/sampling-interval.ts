// How soon a filesystem is read again: a fraction of the time that its writer needs to the next rule. Pure.

export const INTERVAL_MIN_MS = 25;
export const INTERVAL_MAX_MS = 1000;
/** While it is extended or shrunk, whatever the rates say. */
export const INTERVAL_IN_OPERATION_MS = 50;
/** Of the time to the next rule: small enough that a writer who doubles his rate is still seen in time. */
const FRACTION_OF_TIME_LEFT = 0.2;

export interface SamplingFacts {
  readonly usedBytes: number;
  readonly availableBytes: number;
  /** The highest that is known of this writer: present growth, newest rate, peak of the last minute. */
  readonly rateBytesPerSecond: number;
  /** 0: none known. */
  readonly nextExtendUsedBytes: number;
  /** 0: none known. */
  readonly minAvailableBytes: number;
  readonly operationInProgress: boolean;
}

export function samplingIntervalMs(facts: SamplingFacts): number {
  if (facts.operationInProgress) return INTERVAL_IN_OPERATION_MS;
  if (!(facts.rateBytesPerSecond > 0)) return INTERVAL_MAX_MS;
  const timeLeftMs = (distanceToNextRuleBytes(facts) / facts.rateBytesPerSecond) * 1000;
  return Math.min(INTERVAL_MAX_MS, Math.max(INTERVAL_MIN_MS, timeLeftMs * FRACTION_OF_TIME_LEFT));
}

// A mark that has been crossed was reported already, so only marks ahead count. The end of the disk is always ahead.
function distanceToNextRuleBytes(facts: SamplingFacts): number {
  const toRuleBytes = facts.nextExtendUsedBytes - facts.usedBytes;
  const toMinAvailableBytes = facts.availableBytes - facts.minAvailableBytes;
  let distanceBytes = facts.availableBytes;
  if (toRuleBytes > 0) distanceBytes = Math.min(distanceBytes, toRuleBytes);
  if (toMinAvailableBytes > 0) distanceBytes = Math.min(distanceBytes, toMinAvailableBytes);
  return distanceBytes;
}
