// Makes the members of a span volume what its layout says: claims, volumes, attachments of those that shall be there, and the
// teardown of those that are out of the filesystem. Then at most one write of the layout says what became of their sources.
import { isDeepStrictEqual } from "node:util";
import type { ClaimSource, FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import type { ConditionReason } from "../../api/reasons.ts";
import type { KubeClient } from "../../kube/client.ts";
import { isKubeError, KubeError } from "../../kube/kube-error.ts";
import { VOLUME_ATTACHMENTS, type VolumeAttachment } from "../../kube/resources.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { refusalOfSlots } from "../csi/attach-slots.ts";
import { isOut, isRemoving, saidHolder } from "../volume/layout-facts.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { attachmentOf } from "./claim-source.ts";
import { claimTrouble } from "./claim-trouble.ts";
import { withoutEndedMark } from "./decide-replacement.ts";
import { keepCount } from "./member-count.ts";
import { gatherMembers, type MemberCaches, type MemberFacts } from "./member-facts.ts";
import { memberNode, strandedVolume } from "./member-node.ts";
import { ForeignClaimError, takeStep } from "./member-steps.ts";
import type { Pace } from "./pace.ts";
import { type MemberPlace, type MemberPlan, type MemberStep, planMember } from "./plan-member.ts";
import { settledState } from "./settled-state.ts";
import { attachmentsOf, detach, tearDownMember } from "./tear-down-member.ts";

export interface MemberTending {
  readonly client: KubeClient;
  readonly caches: MemberCaches;
  readonly layouts: LayoutWriter;
  /** Of asking a provisioner again that has sent a claim away. */
  readonly reselection: Pace;
  /** Of making what was made a moment ago: caches may not show it yet. */
  readonly making: Pace;
}

/** What people are told. */
export interface MemberReport {
  readonly waiting: readonly string[];
  readonly problem: { readonly reason: ConditionReason; readonly message: string } | undefined;
  /** Why there is no spare, though there shall be one; the volume is fine without. */
  readonly spare: string | undefined;
}

const QUIET: MemberReport = { waiting: [], problem: undefined, spare: undefined };

/** Idempotent. Throws KubeError where the API server fails, not where it refuses a claim. */
export async function tendMembers(tending: MemberTending, layout: FilesystemLayout): Promise<MemberReport> {
  if (isRemoving(layout)) return QUIET;
  const waiting: string[] = [];
  const sources = new Map<string, ClaimSource>();
  let problem: MemberReport["problem"];
  let spare: string | undefined;
  const all = gatherMembers(tending.caches, layout);
  for (const facts of all) {
    const state = settledState(layout, facts.member);
    if (isOut(layout, { ...facts.member, state })) continue;
    const place = await placeOf(tending.client, layout, facts, all);
    const plan = state === "Spare" ? await planSpare(tending, layout, facts, place) : planMember(facts, place);
    const refused = await takeSteps(tending, layout, facts, plan);
    const trouble = refused === undefined ? await troubleOf(tending, facts) : undefined;
    const wrong = refused ?? failedIf(plan.problem ?? trouble);
    let waitsFor = plan.waiting;
    if (plan.source !== undefined && refused === undefined) {
      if (await isAttachedNow(tending.client, facts.member, plan.source)) sources.set(facts.member.name, plan.source);
      else waitsFor ??= `member ${facts.member.name}: its VolumeAttachment to be seen as it is`;
    }
    if (state === "Spare") spare ??= wrong?.message ?? waitsFor;
    else {
      problem ??= wrong;
      if (waitsFor !== undefined) waiting.push(waitsFor);
    }
  }
  waiting.push(...(await removeStrays(tending, layout)));
  const gone = new Set<string>();
  for (const member of departing(layout)) {
    const left = await removeMember(tending.client, layout, member);
    if (left === undefined) gone.add(member.name);
    else waiting.push(`member ${member.name}: ${left}`);
  }
  await recordSources(tending, layout, sources, gone);
  return { waiting, problem, spare };
}

/** It takes no attach slot that there is not: members that hold data may need it. */
async function planSpare(
  { client }: MemberTending,
  layout: FilesystemLayout,
  facts: MemberFacts,
  place: MemberPlace,
): Promise<MemberPlan> {
  const plan = planMember(facts, place);
  const attaching = plan.steps.find((step) => step.do === "attach");
  if (attaching === undefined) return plan;
  const wanted = [{ name: facts.member.name, driver: attaching.driver }];
  const full = await refusalOfSlots(client, attaching.nodeName, wanted, layout);
  if (full === undefined) return plan;
  return { ...plan, steps: plan.steps.filter((step) => step !== attaching), problem: full.message };
}

async function placeOf(
  client: KubeClient,
  layout: FilesystemLayout,
  facts: MemberFacts,
  all: readonly MemberFacts[],
): Promise<MemberPlace> {
  const { spec, status } = layout;
  const { member, claim, volume } = facts;
  const reported = status?.members?.find(({ name, state }) => name === member.name && state === "Present");
  // Of those that are members already: one that is out of their reach is none.
  const others = all.flatMap((one) => (one !== facts && one.member.source.claim?.uid && one.volume) || []);
  const isNew = member.source.claim?.uid === undefined;
  const isPending = isNew && claim?.spec.volumeName === undefined;
  return {
    volumeUID: spec.volumeUID ?? "",
    nodeName: spec.nodeName,
    selectedNode: isPending ? await memberNode(client, layout, others) : undefined,
    stranded: isNew && volume ? await strandedVolume(client, volume, others, spec.nodeName) : undefined,
    deviceBytes: reported === undefined ? undefined : parseQuantity(reported.size),
  };
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

/** Returns why the API server refuses a step for good; undefined: all are taken. */
async function takeSteps(
  tending: MemberTending,
  layout: FilesystemLayout,
  { member }: MemberFacts,
  { steps }: MemberPlan,
): Promise<MemberReport["problem"]> {
  const { reselection } = tending;
  const due = steps.filter((step) => step.do !== "select-node" || reselection.mayAsk(step.claim.metadata.uid ?? ""));
  try {
    for (const step of due) await takeOnce(tending, layout, member, step);
    return undefined;
  } catch (error) {
    // A quota, a policy, a name that is taken: said to people, and looked at again with every change of the volume.
    if (error instanceof ForeignClaimError) return failed(error.message);
    if (error instanceof KubeError && (error.reason === "Forbidden" || error.reason === "Invalid"))
      return failed(`member ${member.name}: ${error.message}`);
    throw error;
  }
}

/** A claim or an attachment is not asked for again before anybody could have seen it. */
async function takeOnce(
  { client, making }: MemberTending,
  layout: FilesystemLayout,
  member: MemberSpec,
  step: MemberStep,
): Promise<void> {
  const isMade = step.do === "create-claim" || step.do === "attach";
  const key = `${layout.metadata.uid}/${member.name}/${step.do === "attach" ? step.nodeName : ""}`;
  if (isMade && !making.mayAsk(key)) return;
  try {
    await takeStep(client, layout, member, step);
  } catch (error) {
    making.forget(key);
    throw error;
  }
}

/** What its provisioner says against a claim that it does not bind. */
async function troubleOf({ client }: MemberTending, { claim }: MemberFacts): Promise<string | undefined> {
  if (claim === undefined || claim.spec.volumeName !== undefined) return undefined;
  return (await claimTrouble(client, claim))?.message;
}

/** Attachments to nodes where the volume is not published: a step that was under way when it was unpublished. */
async function removeStrays(
  { client, caches }: MemberTending,
  { metadata: { name: handle }, spec: cached }: FilesystemLayout,
): Promise<string[]> {
  const seen = caches.attachments.store.byIndex("volume", handle);
  if (cached.volumeUID === undefined || seen.every(({ spec }) => spec.nodeName === cached.nodeName)) return [];
  // Before the layout is read: an attachment that is made after that belongs to a node that the volume is given to meanwhile.
  const listed = new Set((await attachmentsOf(client, cached.volumeUID)).map(({ metadata }) => metadata.uid));
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (live === undefined || live.spec.volumeUID !== cached.volumeUID) return [];
  const { nodeName } = live.spec;
  const isMountedOn = (node: string): boolean => saidHolder(live) === node;
  const isStray = ({ metadata, spec }: VolumeAttachment): boolean =>
    listed.has(metadata.uid) && spec.nodeName !== nodeName && !isMountedOn(spec.nodeName);
  const left = await detach(client, cached.volumeUID, isStray);
  return left.map(({ spec }) => `to be detached from node ${spec.nodeName}`);
}

/** Those past the point of no return. */
function departing(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).filter((member) => isOut(layout, member));
}

async function removeMember(
  client: KubeClient,
  layout: FilesystemLayout,
  member: MemberSpec,
): Promise<string | undefined> {
  const live = await client.get(FILESYSTEM_LAYOUTS, { name: layout.metadata.name });
  if (live === undefined || live.metadata.uid !== layout.metadata.uid) return "the layout to be seen as it is";
  const still = departing(live).find(({ name }) => name === member.name);
  if (still === undefined || live.spec.volumeUID === undefined) return "the layout to be seen as it is";
  const { uid, volumeHandle } = still.source.claim ?? {};
  try {
    await keepCount(client, live);
    return await tearDownMember(client, {
      handle: live.metadata.name,
      volumeUID: live.spec.volumeUID,
      name: still.name,
      claimUID: uid,
      volumeHandle,
    });
  } catch (error) {
    // The claim or its volume changed between reading and writing: the change itself brings the next pass.
    if (isKubeError(error, "Conflict")) return "its claim to be seen as it is";
    throw error;
  }
}

async function recordSources(
  { layouts }: MemberTending,
  layout: FilesystemLayout,
  sources: ReadonlyMap<string, ClaimSource>,
  gone: ReadonlySet<string>,
): Promise<void> {
  await layouts.update("member/record-sources", layout, (current) => {
    // Decided on that very specification: unpublished and published meanwhile, to whatever node, it is decided again.
    const isSame =
      current.metadata.uid === layout.metadata.uid && current.metadata.generation === layout.metadata.generation;
    if (!isSame || isRemoving(current)) return undefined;
    const before = current.spec.members ?? [];
    const members = before
      .filter(({ name, state }) => !(state === "Removed" && gone.has(name)))
      .map((member) => {
        const source = sources.get(member.name);
        const state = settledState(current, member);
        return {
          ...withoutEndedMark(current, member),
          ...(state === undefined ? {} : { state }),
          ...(source === undefined ? {} : { source: { claim: source } }),
        };
      });
    return isDeepStrictEqual(members, before) ? undefined : { members };
  });
}

function failedIf(message: string | undefined): MemberReport["problem"] {
  return message === undefined ? undefined : failed(message);
}

function failed(message: string): NonNullable<MemberReport["problem"]> {
  return { reason: "MemberFailed", message };
}
