// Makes the members of a span volume what its layout says: claims, volumes, attachments of those that shall be there, and the
// teardown of those that are out of the filesystem. Then at most one write of the layout says what became of their sources. What a
// member needs is decided in plan-member.ts; nothing is decided here.
import { isDeepStrictEqual } from "node:util";
import type { ClaimSource, FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import type { ConditionReason } from "../../api/reasons.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { VOLUME_ATTACHMENTS } from "../../kube/resources.ts";
import { isOut, isRemoving } from "../volume/layout-facts.ts";
import type { GrowthRecord } from "../volume/layout-fields.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { lackOfSlots } from "./attach-slots.ts";
import { attachmentOf } from "./claim-source.ts";
import { claimTrouble } from "./claim-trouble.ts";
import { gatherMembers, type MemberCaches, type MemberFacts } from "./member-facts.ts";
import { gatherPlace } from "./member-place.ts";
import { type MemberPlace, type MemberPlan, planMember } from "./plan-member.ts";
import { recordSources } from "./record-sources.ts";
import { isRefused, withRefusal } from "./refused-members.ts";
import { removeDeparted } from "./remove-departed.ts";
import { removeStrays } from "./remove-strays.ts";
import { settledState } from "./settled-state.ts";
import { type StepTaking, takeSteps } from "./take-steps.ts";

export interface MemberTending extends StepTaking {
  readonly caches: MemberCaches;
  readonly layouts: LayoutWriter;
}

/** What people are told. */
export interface MemberReport {
  readonly waiting: readonly string[];
  readonly problem: { readonly reason: ConditionReason; readonly message: string } | undefined;
  /** Why there is no spare, though there shall be one; the volume is fine without. */
  readonly spare: string | undefined;
}

/** What was done besides. */
export interface MembersTended extends MemberReport {
  /** Members that the layout still named as in the filesystem, and that this pass has asked to go. */
  readonly left: readonly MemberSpec[];
}

const QUIET: MembersTended = { waiting: [], problem: undefined, spare: undefined, left: [] };

/**
 * Idempotent. `growthNews`: what a layout is to say of its members' growth, which goes into the same write. Throws KubeError where the API
 * server fails, not where it refuses a claim.
 */
export async function tendMembers(
  tending: MemberTending,
  layout: FilesystemLayout,
  growthNews: (current: FilesystemLayout) => GrowthRecord | undefined,
): Promise<MembersTended> {
  if (isRemoving(layout)) return QUIET;
  const waiting: string[] = [];
  const sources = new Map<string, ClaimSource>();
  let wrong: string | undefined;
  let spare: string | undefined;
  const all = gatherMembers(tending.caches, layout);
  for (const facts of all) {
    const state = settledState(layout, withRefusal(layout, facts.member));
    if (isOut(layout, { ...facts.member, state })) continue;
    const place = await gatherPlace(tending.client, layout, facts, all);
    const plan = state === "Spare" ? await planSpare(tending.client, layout, facts, place) : planMember(facts, place);
    const tended = await tendMember(tending, layout, facts, plan);
    if (tended.source !== undefined) sources.set(facts.member.name, tended.source);
    // Nothing waits for one that is not used: what there is to say of it is said (decide-status.ts).
    if (isRefused(withRefusal(layout, facts.member))) continue;
    if (state === "Spare") spare ??= tended.wrong ?? tended.waiting;
    else {
      wrong ??= tended.wrong;
      if (tended.waiting !== undefined) waiting.push(tended.waiting);
    }
  }
  waiting.push(...(await removeStrays(tending.client, tending.caches, layout)));
  const departure = await removeDeparted(tending.client, layout);
  waiting.push(...departure.waiting);
  const left = await recordSources(tending.layouts, layout, sources, departure.gone, growthNews);
  const problem = wrong === undefined ? undefined : { reason: "MemberFailed" as const, message: wrong };
  return { waiting, problem, spare, left };
}

interface TendedMember {
  /** What the layout may say of it now. */
  readonly source: ClaimSource | undefined;
  readonly waiting: string | undefined;
  readonly wrong: string | undefined;
}

async function tendMember(
  tending: MemberTending,
  layout: FilesystemLayout,
  facts: MemberFacts,
  { steps, source, waiting, problem }: MemberPlan,
): Promise<TendedMember> {
  const { member } = facts;
  const refused = await takeSteps(tending, layout, member, steps);
  if (refused !== undefined) return { source: undefined, waiting, wrong: refused };
  const trouble = await troubleOf(tending.client, facts);
  const wrong = problem ?? trouble;
  if (source === undefined || (await isAttachedNow(tending.client, member, source))) return { source, waiting, wrong };
  const toBeSeen = `member ${member.name}: its VolumeAttachment to be seen as it is`;
  return { source: undefined, waiting: waiting ?? toBeSeen, wrong };
}

/** It takes no attach slot that there is not: members that hold data may need it. */
async function planSpare(
  client: KubeClient,
  layout: FilesystemLayout,
  facts: MemberFacts,
  place: MemberPlace,
): Promise<MemberPlan> {
  const plan = planMember(facts, place);
  const attaching = plan.steps.find((step) => step.do === "attach");
  if (attaching === undefined) return plan;
  const wanted = [{ name: facts.member.name, driver: attaching.driver }];
  const full = await lackOfSlots(client, attaching.nodeName, wanted, layout);
  if (full === undefined) return plan;
  return { ...plan, steps: plan.steps.filter((step) => step !== attaching), problem: full };
}

/** What a node is told that it was not told before is of the VolumeAttachment that is there now, whatever a cache still shows. */
async function isAttachedNow(
  client: KubeClient,
  { source }: MemberSpec,
  { attachment }: ClaimSource,
): Promise<boolean> {
  if (attachment?.name === undefined || isDeepStrictEqual(source.claim?.attachment, attachment)) return true;
  const live = await client.get(VOLUME_ATTACHMENTS, { name: attachment.name });
  return live !== undefined && isDeepStrictEqual(attachmentOf(live), attachment);
}

/** What its provisioner says against a claim that it does not bind. */
async function troubleOf(client: KubeClient, { claim }: MemberFacts): Promise<string | undefined> {
  if (claim === undefined || claim.spec.volumeName !== undefined) return undefined;
  return (await claimTrouble(client, claim))?.message;
}
