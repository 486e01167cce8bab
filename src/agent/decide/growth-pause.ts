// A device that was waited for in vain is not waited for again at once: meanwhile the operator adds a member, if it may. One that has
// followed by then is no promise any more, and is taken in. Pure.

import { laggingBytes, memberFactsOf } from "../gather/span-facts.ts";
import type { VolumeState } from "../volumes/volume-state.ts";
import type { MemberFacts } from "./decide-operation.ts";

/** From the end of the extend that waited. */
export const GROWTH_PAUSE_MS = 30_000;
/** How often devices are looked at meanwhile. */
export const GROWTH_LOOK_MS = 5000;

/** What the members allow at this moment, without what a pause is for. Undefined for a volume whose one member takes any size. */
export function membersNow(state: VolumeState, monotonicMs: number): MemberFacts | undefined {
  const facts = memberFactsOf(state, monotonicMs);
  return facts && { ...facts, attainableBytes: facts.attainableBytes - pausedBytes(state, monotonicMs) };
}

/** What is promised, and not counted on for a while. */
export function pausedBytes(state: VolumeState, monotonicMs: number): number {
  const { lastOperation } = state.record;
  const hasFailed = lastOperation?.outcome === "Failed" && lastOperation.reason === "WaitingForMember";
  return hasFailed && monotonicMs - state.operationEndedMs < GROWTH_PAUSE_MS ? laggingBytes(state) : 0;
}
