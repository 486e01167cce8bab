// What is arranged ahead of need, so that speed never waits for a decision: the emergency grant on the layout, and the guidance
// that lets an agent sample slowly while nothing is near. Both are renewed only when they would differ.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { Ceilings } from "../ceilings.ts";
import type { CompiledPolicy } from "../compiled-policy.ts";
import { emergencyGrant, isGrantInDoubt } from "../emergency.ts";
import type { Facts } from "../facts.ts";
import { nextExtendUsedBytes } from "../next-extend.ts";
import { applyGrant, type GrantToApply } from "./apply.ts";
import type { Gathered } from "./gather.ts";
import type { SampleServer } from "./sample-server.ts";
import type { Guided, VolumeState } from "./volume-registry.ts";

/** Guidance is worked out anew after this long even if size and policy are the same: rules may look at growth and windows. */
const GUIDANCE_INTERVAL_MS = 5000;
/** A grant is renewed when less than this is left of its life. */
const GRANT_RENEWAL_MS = 12 * 3_600_000;
/** A grant whose sizes moved by less than this still serves. */
const GRANT_SLACK_RATIO = 0.1;

export interface Precautions {
  /** What the agent is to look out for from now on; undefined: what it was told serves. */
  readonly guidance: Guided | undefined;
  /** The change of the grant, to none or to another; undefined: what stands serves. */
  readonly grant: { readonly to: GrantToApply | undefined } | undefined;
}

/** Pure; it asks the rules at many sizes, so it runs under the same time limit as the decision. */
export function preparePrecautions(
  { guided }: Pick<VolumeState, "guided">,
  { facts, layout }: Gathered,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
  epoch: number,
): Precautions {
  return {
    guidance: newGuidance(guided, facts, policy, ceilings),
    grant: newGrant(facts, layout, policy, ceilings, epoch),
  };
}

/** Sends and writes them; undefined where there is nothing to write. */
export function carryOut(
  client: KubeClient,
  samples: Pick<SampleServer, "guide">,
  state: VolumeState,
  { layout }: Gathered,
  { guidance, grant }: Precautions,
): Promise<void> | undefined {
  const nodeName = layout.status?.nodeName;
  if (guidance !== undefined && nodeName !== undefined) {
    if (guidance.usedBytes !== state.guided?.usedBytes)
      samples.guide(nodeName, { volumeHandle: state.handle, nextExtendUsedBytes: Math.ceil(guidance.usedBytes) });
    state.guided = guidance;
  }
  return grant && applyGrant(client, layout, grant.to);
}

function newGuidance(
  guided: Guided | undefined,
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
): Guided | undefined {
  const { nowMs } = facts;
  const { sizeBytes } = facts.filesystem;
  const isOld = guided === undefined || nowMs - guided.atMs >= GUIDANCE_INTERVAL_MS;
  if (!isOld && guided.policy === policy && guided.sizeBytes === sizeBytes) return undefined;
  const usedBytes = policy === undefined ? 0 : nextExtendUsedBytes(facts, policy, ceilings);
  return usedBytes === undefined ? undefined : { usedBytes, policy, sizeBytes, atMs: nowMs };
}

function newGrant(
  facts: Facts,
  layout: FilesystemLayout,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
  epoch: number,
): Precautions["grant"] {
  // What stands goes on standing while nothing new can be told: that is what a grant is for.
  if (isGrantInDoubt(facts)) return undefined;
  const wanted = emergencyGrant(facts, policy, ceilings);
  const to: GrantToApply | undefined = wanted && {
    sizeBytes: wanted.sizeBytes,
    minAvailableBytes: Math.ceil(wanted.minAvailableBytes),
    expiresAtMs: facts.nowMs + wanted.expiresInMs,
    epoch,
  };
  return serves(standingGrant(layout), to, facts.nowMs) ? undefined : { to };
}

// What the layout says, not what this process remembers: another leader may have written it.
function standingGrant({ spec: { emergency } }: FilesystemLayout): GrantToApply | undefined {
  return (
    emergency && {
      sizeBytes: parseQuantity(emergency.size),
      minAvailableBytes: parseQuantity(emergency.minAvailable),
      expiresAtMs: Date.parse(emergency.expiry),
      epoch: emergency.epoch,
    }
  );
}

function serves(standing: GrantToApply | undefined, wanted: GrantToApply | undefined, nowMs: number): boolean {
  if (standing === undefined || wanted === undefined) return standing === wanted;
  return (
    standing.epoch === wanted.epoch &&
    standing.expiresAtMs - nowMs > GRANT_RENEWAL_MS &&
    // A grant over what is allowed now is taken back at once.
    standing.sizeBytes >= wanted.sizeBytes * (1 - GRANT_SLACK_RATIO) &&
    standing.sizeBytes <= wanted.sizeBytes &&
    Math.abs(standing.minAvailableBytes - wanted.minAvailableBytes) <= GRANT_SLACK_RATIO * wanted.minAvailableBytes
  );
}
