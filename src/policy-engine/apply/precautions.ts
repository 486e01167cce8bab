// What is arranged ahead of need, so that speed never waits for a decision: the emergency grant on the layout, and the guidance
// that lets an agent sample slowly while nothing is near. Both are renewed only when they would differ.

import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { EMERGENCY_LIFE_MS, type Grant, readGrant } from "../../contracts/kinds/grant.ts";
import { type Emergency, isGrantUncertain, nextExtendUsedBytes } from "../decide/decide-precautions.ts";
import type { Facts } from "../facts/facts.ts";
import type { Gathered } from "../gather/gather-facts.ts";
import type { Guided, VolumeState } from "../gather/volume-registry.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { SampleServer } from "../samples/sample-server.ts";
import { grantWithin } from "../sizing/namespace-budget.ts";
import { roundDownToMiB } from "../sizing/sizes.ts";

/** Guidance is renewed after this long even if size and policy are the same: rules may read growth and windows. */
const GUIDANCE_INTERVAL_MS = 5000;
/** A grant is renewed when less than this is left of its life … */
const GRANT_RENEWAL_MS = 12 * 3_600_000;
/** … or more than all of it by more than this: the clock that dated it was set back since, and its node counts on its own. */
const GRANT_EXCESS_MS = 60_000;
/** A grant whose sizes moved by less than this still serves. */
const GRANT_SLACK_RATIO = 0.1;

/** What the agent is to watch from now on; undefined: its present guidance serves. Asks the rules at many sizes. */
export function newGuidance(
  { guided }: Pick<VolumeState, "guided">,
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
): Guided | undefined {
  const { monotonicMs } = facts;
  const { sizeBytes } = facts.filesystem;
  const isOld = guided === undefined || monotonicMs - guided.atMs >= GUIDANCE_INTERVAL_MS;
  const isOfThese = guided !== undefined && guided.policy === policy && guided.sizeBytes === sizeBytes;
  if (!isOld && isOfThese) return undefined;
  const knownBytes = isOfThese ? guided.usedBytes : undefined;
  const usedBytes = policy === undefined ? 0 : nextExtendUsedBytes(facts, policy, ceilings, knownBytes);
  return usedBytes === undefined ? undefined : { usedBytes, policy, sizeBytes, atMs: monotonicMs };
}

/** What was not sent is worked out, and sent, again with the next decision. */
export function sendGuidance(
  samples: Pick<SampleServer, "guide">,
  state: VolumeState,
  { layout }: Gathered,
  guidance: Guided,
): void {
  const nodeName = layout.status?.nodeName ?? layout.spec.nodeName;
  if (nodeName === undefined) return;
  const isKnown = guidance.usedBytes === state.guided?.usedBytes;
  const marks = { volumeHandle: state.handle, nextExtendUsedBytes: Math.ceil(guidance.usedBytes) };
  if (isKnown || samples.guide(nodeName, marks)) state.guided = guidance;
}

export interface GrantBounds {
  /** How large the namespace's budget lets it be: asked for when every volume of the batch has said what it asks for. */
  readonly shareBytes: number;
  /** Of the policy and its ceilings, whatever is measured; 0: none. */
  readonly limitBytes: number;
}

/** The change of the grant, to none or to another; undefined: what stands serves. */
export function newGrant(
  { facts, layout }: Gathered,
  granted: Emergency | undefined,
  { shareBytes, limitBytes }: GrantBounds,
  epoch: number,
): GrantChange | undefined {
  const standing = standingGrant(layout);
  if (isGrantUncertain(facts)) {
    const mostBytes = facts.filesystem.mounted ? limitBytes : Math.min(limitBytes, shareBytes);
    return lowered(standing, facts, mostBytes, epoch);
  }
  const wanted = grantWithin(granted, facts, shareBytes);
  const to: Grant | undefined = wanted && {
    sizeBytes: wanted.sizeBytes,
    minAvailableBytes: Math.ceil(wanted.minAvailableBytes),
    expiryMs: facts.nowMs + wanted.expiresInMs,
    epoch,
  };
  return serves(standing, to, facts.nowMs) ? undefined : { to };
}

export interface GrantChange {
  readonly to: Grant | undefined;
}

// A standing grant stays while the facts are unknown: that is its purpose. But it never exceeds a limit that was written down since; and a
// filesystem without a writer does not need it, while others may.
function lowered(standing: Grant | undefined, facts: Facts, mostBytes: number, epoch: number): GrantChange | undefined {
  if (standing === undefined || standing.sizeBytes <= mostBytes) return undefined;
  const sizeBytes = roundDownToMiB(mostBytes);
  return { to: sizeBytes > facts.filesystem.sizeBytes ? { ...standing, sizeBytes, epoch } : undefined };
}

// What the layout says, not what this process remembers: another leader may have written it.
function standingGrant({ spec: { emergency } }: FilesystemLayout): Grant | undefined {
  return emergency && readGrant(emergency);
}

/** Until then, on the wall clock, what stands serves if it serves now. */
export function grantServesUntilMs(layout: FilesystemLayout): number {
  const standing = standingGrant(layout);
  return standing === undefined ? Number.POSITIVE_INFINITY : standing.expiryMs - GRANT_RENEWAL_MS;
}

function serves(standing: Grant | undefined, wanted: Grant | undefined, nowMs: number): boolean {
  if (standing === undefined || wanted === undefined) return standing === wanted;
  return (
    standing.epoch === wanted.epoch &&
    standing.expiryMs - nowMs > GRANT_RENEWAL_MS &&
    standing.expiryMs - nowMs < EMERGENCY_LIFE_MS + GRANT_EXCESS_MS &&
    // A grant over what is allowed now is taken back at once.
    standing.sizeBytes >= wanted.sizeBytes * (1 - GRANT_SLACK_RATIO) &&
    standing.sizeBytes <= wanted.sizeBytes &&
    Math.abs(standing.minAvailableBytes - wanted.minAvailableBytes) <= GRANT_SLACK_RATIO * wanted.minAvailableBytes
  );
}
