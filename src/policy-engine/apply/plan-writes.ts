// The writes that carry out a decision: the Filesystem's target and trims, the report to people, and an emergency's grant. They start here;
// the engine waits for them.
import { decisionTime, STEP_AHEAD_MS } from "../../contracts/formulas/decision-order.ts";
import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { TrimRequest } from "../../contracts/kinds/trim.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import type { OwnWrites } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { KubeError } from "../../platform/kube/kube-error.ts";
import type { Logger } from "../../platform/process/log.ts";
import { grantLimit } from "../decide/decide-precautions.ts";
import { boundOf } from "../decide/modes.ts";
import { type ChangePlan, mostBytes, type Plan, sameConclusion } from "../decide/plan.ts";
import type { Decided, DecidingWorld } from "../engine/decide-batch.ts";
import type { RateLimit } from "../engine/own-limits.ts";
import type { ClaimFacts, Facts, PlannedShrink } from "../facts/facts.ts";
import { missedAgain } from "../facts/missed-windows.ts";
import type { Gathered } from "../gather/gather-facts.ts";
import { type Changes, FLAPS_REMEMBERED_MS, noteChanges } from "../gather/operation-times.ts";
import { inPlaceOfDeposed, targetToStay } from "../gather/policy-shrink.ts";
import type { ReportedPlan, VolumeState } from "../gather/volume-registry.ts";
import type { EngineMetrics } from "../metrics.ts";
import { isOver } from "../policies/approvals.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { recordPlan, reportPlan } from "../report/report-plan.ts";
import { minAvailableBytes } from "../sizing/sizes.ts";
import { applyGrant, applyTarget, applyTrim } from "./apply-plan.ts";
import { newGrant } from "./precautions.ts";

export interface PlanWriting {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly world: DecidingWorld;
  readonly metrics: EngineMetrics;
  /** Changes to the whole cluster a second; a plan over it is asked for again when its turn comes. */
  readonly clusterRate: RateLimit;
  /** The leader's epoch, asked right before each write; undefined: this replica only watches. */
  readonly epoch: () => number | undefined;
  /** A grant is not written again because the cache does not show it yet. */
  readonly ownGrants: OwnWrites<FilesystemLayout>;
  /** The target of a change stands on the API server. */
  readonly onWritten: (claim: ClaimFacts, plan: ChangePlan) => void;
  readonly log: Logger;
}

/** A status is not rewritten more often than this, unless a size changes. */
const REPORT_INTERVAL_MS = 1000;
/** That a change is under way its own report says; most are over by then. */
const UNDER_WAY_INTERVAL_MS = 3000;

/** Of one volume: so many are worth a write by themselves … */
const UNREPORTED_EXTENDS = 4;
/** … and these where a ceiling counts them: the last one its layout has, so that a new leader misses none. */
const UNREPORTED_COUNTED_EXTENDS = 2;

/** A stop is asked for again where it is not seen after this long. */
const STOP_AGAIN_MS = 5000;

/** Begun; undefined where there is nothing new to write, or not yet: then `again` is called in time. */
export function writesOf(
  writing: PlanWriting,
  decided: Decided,
  epoch: number,
  again: () => void,
): Promise<void> | undefined {
  noteMissedWindow(decided);
  const planned = writesOfPlan(writing, decided, epoch, again);
  return thenTrim(writing, decided, epoch, replaceTarget(writing, decided, epoch, planned));
}

function writesOfPlan(
  writing: PlanWriting,
  decided: Decided,
  epoch: number,
  again: () => void,
): Promise<void> | undefined {
  const { state, gathered, policy, ceilings, plan } = decided;
  const { monotonicMs } = gathered.facts;
  if (plan.kind !== "hold") {
    // Counted, and never held: what others ask for keeps no nearly full volume waiting.
    const isFree = writing.clusterRate.take(monotonicMs) || extendsNearlyFull(decided);
    if (!isFree) return waitForTurn(writing, state, plan, monotonicMs, again);
    endTurn(state);
    return change(writing, state, gathered, plan, wantedTrim(policy), epoch);
  }
  endTurn(state);
  const reported = reportedOn(state, gathered);
  const isKnown = reported !== undefined && saysAll(reported, plan, state, ceilings);
  if (isKnown && !asksForMore(reported.plan, plan, gathered.facts)) return undefined;
  clearTimeout(state.reportTimer);
  const waitMs = reported === undefined ? 0 : reportedAgainMs(reported, plan, state) - monotonicMs;
  if (waitMs <= 0) return report(writing, state, gathered, plan, epoch);
  state.reportTimer = setTimeout(again, waitMs).unref();
  return undefined;
}

/** It has less than its minAvailable, whatever else asks for the extend. */
function extendsNearlyFull({ plan, policy, gathered: { facts } }: Decided): boolean {
  const { reading } = facts.filesystem;
  if (plan.kind !== "extend" || reading === undefined || policy?.guardsMinAvailable !== true) return false;
  const { capacityBytes, availableBytes, growthBytesPerSecond } = reading;
  return availableBytes < minAvailableBytes(policy.limits, capacityBytes, growthBytesPerSecond);
}

function waitForTurn(
  { clusterRate, metrics, log }: PlanWriting,
  state: VolumeState,
  plan: Plan,
  monotonicMs: number,
  again: () => void,
): undefined {
  if (state.turnTimer !== undefined) return;
  const waitMs = clusterRate.turnMs(monotonicMs);
  metrics.refusedWrites.inc({ reason: "OwnRate" });
  log.info({ volume: state.handle, plan: plan.kind, waitMs }, "a change waits for its turn: too many are made at once");
  const ask = (): void => {
    state.turnTimer = undefined;
    again();
  };
  state.turnTimer = setTimeout(ask, waitMs).unref();
}

function endTurn(state: VolumeState): void {
  clearTimeout(state.turnTimer);
  state.turnTimer = undefined;
}

/** The present size takes the place of a shrink that is no longer wanted, and of a target that was refused. */
function replaceTarget(
  { client, log }: PlanWriting,
  { state, gathered, policy, plan }: Decided,
  epoch: number,
  planned: Promise<void> | undefined,
): Promise<void> | undefined {
  if (plan.kind !== "hold") return planned;
  const stops = plan.stopsShrink === true;
  const { monotonicMs } = gathered.facts;
  if (stops && monotonicMs - (state.stopAskedAtMs ?? Number.NEGATIVE_INFINITY) < STOP_AGAIN_MS) return planned;
  const target = stops ? targetToStay(gathered, epoch) : inPlaceOfDeposed(gathered, epoch);
  if (target === undefined) return planned;
  if (stops) state.stopAskedAtMs = monotonicMs;
  const { namespace, name } = gathered.filesystem.metadata;
  const why = stops ? "a shrink that is no longer wanted" : "a deposed leader's target";
  log.info({ namespace, name, epoch }, `the present size is put in the place of ${why}`);
  return (planned ?? Promise.resolve()).then(async () => {
    await applyTarget(client, gathered.filesystem, target, wantedTrim(policy));
  });
}

/** Before the report, which says it. */
function noteMissedWindow({ state, gathered, policy, plan }: Decided): void {
  const { target } = gathered.filesystem.spec;
  const isMissed = plan.kind === "hold" && plan.stopsShrink === true && plan.reason === "OutsideWindow";
  if (!isMissed || policy === undefined || target === undefined) return;
  const { facts, layout } = gathered;
  const isBegun = layout.status?.operation?.kind === "Shrink" || facts.filesystem.replacement !== undefined;
  const shrink = { decidedAt: target.decidedAt, fromBytes: parseQuantity(target.from), isBegun };
  state.missedWindows = missedAgain(state.missedWindows, facts, policy, shrink);
}

/** Undefined where a Filesystem was deleted and recreated: it says nothing yet. */
function reportedOn({ reported }: VolumeState, { filesystem }: Gathered): VolumeState["reported"] {
  return reported?.filesystemUID === filesystem.metadata.uid ? reported : undefined;
}

/**
 * An extend says why in its target. When it is over, and what holds is what held before, its time alone is new: a layout has that of the last
 * one, and of those before it a new leader may miss as many as are not worth a write.
 */
function saysAll(
  { plan: before, atMs: reportedMs }: ReportedPlan,
  plan: Plan,
  changes: Changes,
  { changesPerHour }: Ceilings,
): boolean {
  const worthWrite = changesPerHour === undefined ? UNREPORTED_EXTENDS : UNREPORTED_COUNTED_EXTENDS;
  const unreported = changes.extends.filter(({ atMs }) => atMs > reportedMs).length;
  const isFlapSaid = !changes.flaps.some(({ atMs }) => atMs > reportedMs);
  return sameConclusion(before, plan) && unreported < worthWrite && isFlapSaid;
}

/** Who has approved what it asked for sees here why it still waits: the bound to set is another, if only by a percent. */
function asksForMore(before: Plan, plan: Plan, { approvals = [], nowMs }: Facts): boolean {
  const [said, now] = [before, plan].map((one) => (one.kind === "hold" ? one.awaits : undefined));
  if (said === undefined || now === undefined || boundOf(said) === boundOf(now)) return false;
  return approvals.some((approval) => approval.action === now.action && !isOver(approval, nowMs));
}

/** When a status that says something else may be written. */
function reportedAgainMs({ plan: before, atMs }: ReportedPlan, { reason }: Plan, { pending }: VolumeState): number {
  const usualMs = atMs + REPORT_INTERVAL_MS;
  if (reason !== "OperationInProgress") return usualMs;
  const sinceMs = before.kind === "hold" ? (pending?.writtenAtMs ?? Number.NEGATIVE_INFINITY) : atMs;
  return Math.max(usualMs, sinceMs + UNDER_WAY_INTERVAL_MS);
}

/** After what is planned, which is more urgent and may carry the trims already. */
function thenTrim(
  { client }: PlanWriting,
  { gathered: { filesystem }, policy, plan }: Decided,
  epoch: number,
  planned: Promise<void> | undefined,
): Promise<void> | undefined {
  const trim = wantedTrim(policy);
  const isCarried = plan.kind !== "hold" && planned !== undefined;
  if (isCarried || filesystem.spec.trim?.every === trim?.every) return planned;
  return (planned ?? Promise.resolve()).then(() => applyTrim(client, filesystem, trim, epoch));
}

/** A suspended policy has nothing done to its volumes. */
function wantedTrim(policy: CompiledPolicy | undefined): TrimRequest | undefined {
  return policy?.trimEvery === undefined || policy.suspended ? undefined : { every: policy.trimEvery };
}

/** The write of the grant, begun; undefined: what stands serves. From here on the promise counts, whatever the answer says. */
export function writeOfGrant(
  { client, ownGrants, world: { promises } }: PlanWriting,
  { state: { handle }, gathered: cached, policy, ceilings, candidate }: Decided,
  epoch: number,
): Promise<void> | undefined {
  const gathered = { ...cached, layout: ownGrants.latest(cached.layout) ?? cached.layout };
  const budgetBytes = ceilings.namespaceBytes?.value;
  const shareBytes = budgetBytes === undefined ? Number.POSITIVE_INFINITY : promises.grantShare(handle, budgetBytes);
  const limitBytes = grantLimit(gathered.facts, policy, ceilings);
  const change = newGrant(gathered, candidate?.grant, { shareBytes, limitBytes }, epoch);
  if (change !== undefined) promises.granting(handle, change.to?.sizeBytes ?? 0, epoch);
  return (
    change && applyGrant(client, gathered.layout, change.to).then((written) => ownGrants.wrote(cached.layout, written))
  );
}

async function change(
  writing: PlanWriting,
  state: VolumeState,
  gathered: Gathered,
  plan: ChangePlan,
  trim: TrimRequest | undefined,
  epoch: number,
): Promise<void> {
  const { nowMs, monotonicMs } = gathered.facts;
  // Merging members takes an extend first, which is decided a moment before.
  const aheadMs = plan.members === undefined ? 0 : STEP_AHEAD_MS;
  const decidedAt = decisionTime(nowMs, gathered.layout, gathered.filesystem, aheadMs);
  // Before the write: from here on it may have happened, whatever the answer says.
  state.pending = {
    kind: plan.kind === "extend" ? "Extend" : "Shrink",
    sizeBytes: plan.sizeBytes,
    mostBytes: mostBytes(plan),
    decidedAt,
    writtenAtMs: monotonicMs,
    capacityBytes: gathered.facts.filesystem.reading?.capacityBytes,
    planned: plannedShrink(plan),
    attempt: gathered.facts.filesystem.extendsInVain + 1,
  };
  let filesystem: Filesystem;
  try {
    const { sizeBytes, fromBytes, notAfterMs, members } = plan;
    const target = { sizeBytes, fromBytes, epoch, decidedAt, notAfterMs, members, why: plan };
    filesystem = await applyTarget(writing.client, gathered.filesystem, target, trim);
  } catch (error) {
    if (!(error instanceof KubeError && error.reason === "Unreachable")) state.pending = undefined;
    throw error;
  }
  writing.metrics.targets.inc({ plan: plan.kind });
  writing.onWritten(gathered.facts.claim, plan);
  noteExtend(state, gathered, plan);
  noteFlap(state, gathered, plan);
  // Most extends are over before a reader sees them in the status. It names those that are not.
  const written = { ...gathered, filesystem };
  const isKnown = reportedOn(state, gathered) !== undefined;
  if (plan.kind === "extend" && isKnown && isExplained(written)) announce(writing, filesystem, plan);
  else await report(writing, state, written, plan, epoch);
}

/** What the next decision asks of this one. */
function noteExtend(state: VolumeState, { facts }: Gathered, { kind, vainExtend }: ChangePlan): void {
  if (kind !== "extend") return;
  state.beforeExtend = facts.filesystem.reading;
  if (vainExtend !== undefined) state.vainExtends = new Map(state.vainExtends).set(vainExtend.timerKey, vainExtend);
}

function noteFlap(state: VolumeState, { facts }: Gathered, { kind, peakBytes, flap }: ChangePlan): void {
  if (kind === "shrink" && peakBytes !== undefined) state.peakBeforeShrinkBytes = peakBytes;
  if (flap !== true) return;
  const { nowMs: stampMs, monotonicMs: atMs } = facts;
  noteChanges(state.flaps, [{ stampMs, atMs }], { nowMs: stampMs, monotonicMs: atMs }, FLAPS_REMEMBERED_MS);
}

/** Its target says why; of an ordinary claim the operator reads the status. */
function isExplained({ filesystem: { spec }, layout }: Gathered): boolean {
  return spec.target?.reason !== undefined && layout.spec.backend !== "claim";
}

/** What a report says without the status. */
function announce({ events, metrics, log }: PlanWriting, filesystem: Filesystem, plan: Plan): void {
  recordPlan(events, filesystem, plan);
  noteDecision({ metrics, log }, filesystem, plan);
}

function noteDecision(
  { metrics, log }: Pick<PlanWriting, "metrics" | "log">,
  { metadata }: Filesystem,
  plan: Plan,
): void {
  metrics.decisions.inc({ plan: plan.kind, reason: plan.reason });
  const { namespace, name } = metadata;
  log.info({ namespace, name, plan: plan.kind, reason: plan.reason, rule: plan.rule }, plan.message);
}

function plannedShrink({ sizeBytes, fromBytes, notAfterMs }: ChangePlan): PlannedShrink | undefined {
  return notAfterMs === undefined ? undefined : { sizeBytes, fromBytes, notAfterMs };
}

async function report(
  writing: PlanWriting,
  state: VolumeState,
  { facts, filesystem }: Gathered,
  plan: Plan,
  epoch: number,
): Promise<void> {
  // A leader that was cut off since may meet what the next one has written.
  const isWanted = ({ spec: { target } }: Filesystem): boolean =>
    writing.epoch() === epoch && (target === undefined || target.epoch <= epoch);
  if (!(await reportPlan(writing.client, writing.events, filesystem, plan, state, facts.nowMs, isWanted))) return;
  state.reported = { plan, atMs: facts.monotonicMs, filesystemUID: filesystem.metadata.uid };
  noteDecision(writing, filesystem, plan);
}
