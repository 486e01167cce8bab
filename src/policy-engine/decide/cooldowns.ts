// Whether a wanted change may be made now: its mode, with what that needs of approvals, then the direction's cooldown, counts and windows.
// What is urgent waits for the mode, and after it came to nothing twice; a raised request waits after a failure.
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { FilesystemFacts, RecentChanges } from "../facts/facts.ts";
import type { Approval, Needed } from "../policies/approvals.ts";
import type { Pace } from "../policies/compiled-policy.ts";
import { approvalOf, approvalText } from "./modes.ts";
import type { HoldPlan, Plan, WaitsFor } from "./plan.ts";
import type { Question, WantedChange } from "./question.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The engine's own limit, beyond any policy. */
const MAX_CHANGES_PER_HOUR = 60;
/** After a failed operation, so that a full host is not asked with every sample; twice as long after each further one … */
const FAILURE_BACKOFF_MS = 10_000;
/** … up to this. */
const FAILURE_BACKOFF_MAX_MS = 160_000;
const SHRINK_BACKOFF_MAX_MS = HOUR_MS;

/** The change as a plan, or why it is not made now. */
export function admit(question: Question, wanted: WantedChange): Plan {
  const consent = consentTo(question, wanted);
  if (consent !== undefined && "kind" in consent) return consent;
  return holdForPace(question, wanted) ?? question.change(wanted, consent, describe(question, wanted, consent));
}

/** What the mode says to it: a hold, the approval by which it is made, or undefined, which lets it be made without one. */
function consentTo(question: Question, wanted: WantedChange): HoldPlan | Approval | undefined {
  const { mode, by } = wanted.mode;
  if (mode === "Enforce") return undefined;
  const shown = preview(question, wanted);
  if (mode === "Recommend")
    return question.hold(
      "RecommendOnly",
      `${wanted.because}; the mode is Recommend${by}: nothing is changed`,
      detailsOf(wanted, { preview: shown }),
    );
  const needed: Needed = { action: wanted.direction === "extend" ? "Extend" : "Shrink", sizeBytes: wanted.sizeBytes };
  const { facts } = question;
  return (
    approvalOf(facts, needed) ??
    question.hold(
      "ApprovalRequired",
      approvalText(facts, needed, by, wanted.because),
      detailsOf(wanted, { preview: shown, awaits: needed }),
    )
  );
}

function holdForPace(question: Question, wanted: WantedChange): HoldPlan | undefined {
  const { policy, facts } = question;
  if (wanted.reason === "RequestRaised") return holdAfterFailure(question, wanted);
  if (wanted.urgent && facts.filesystem.extendsInVain > 1) return holdAfterFailure(question, wanted);
  if (wanted.urgent || policy === undefined) return undefined;
  const pace = policy[wanted.direction];
  return (
    holdAfterFailure(question, wanted) ??
    holdForCooldown(question, wanted, pace) ??
    holdForCount(question, wanted, changesOf(facts.changes, wanted.direction), pace.maxPerDay, DAY_MS, "maxPerDay") ??
    holdForCount(question, wanted, allChanges(facts.changes), MAX_CHANGES_PER_HOUR, HOUR_MS, "the limit for an hour") ??
    holdForNamespace(question, wanted) ??
    holdForDriver(question, wanted) ??
    holdForWindows(question, wanted, pace) ??
    holdForTurn(question, wanted, "node") ??
    holdForTurn(question, wanted, "cluster")
  );
}

function holdAfterFailure(question: Question, wanted: WantedChange): HoldPlan | undefined {
  const { monotonicMs, filesystem } = question.facts;
  const last = filesystem.lastOperation;
  if (last?.outcome !== "Failed" || last.kind.toLowerCase() !== wanted.direction) return undefined;
  const backOffMs =
    wanted.direction === "shrink"
      ? shrinkBackOffMs(filesystem)
      : doubled(Math.max(0, filesystem.extendsInVain - 1), FAILURE_BACKOFF_MAX_MS);
  const eligibleAtMs = last.endedAtMs + backOffMs;
  if (monotonicMs >= eligibleAtMs) return undefined;
  const message = `the last ${wanted.direction} failed (${last.reason ?? "no reason given"}); tried again ${formatDuration(backOffMs)} after it`;
  return question.hold("CoolingDown", message, detailsOf(wanted, { nextEligibleMs: question.wallMs(eligibleAtMs) }));
}

/** How long the next shrink waits after one that failed, or found another process at work: it moves data, and is never urgent. */
export function shrinkBackOffMs({ shrinksInVain = 0 }: FilesystemFacts): number {
  return doubled(Math.max(0, shrinksInVain - 1), SHRINK_BACKOFF_MAX_MS);
}

function doubled(times: number, maxMs: number): number {
  return Math.min(maxMs, FAILURE_BACKOFF_MS * 2 ** times);
}

function holdForCooldown(question: Question, wanted: WantedChange, pace: Pace): HoldPlan | undefined {
  const lastMs = lastChangeMs(question.facts.changes, wanted.direction);
  const eligibleAtMs = lastMs + pace.cooldownMs;
  if (!(question.facts.monotonicMs < eligibleAtMs)) return undefined;
  const message = `${wanted.because}; a ${wanted.direction} waits ${formatDuration(pace.cooldownMs)} after the last change`;
  return question.hold("CoolingDown", message, detailsOf(wanted, { nextEligibleMs: question.wallMs(eligibleAtMs) }));
}

// A shrink keeps its distance from any change, so that it never undoes a fresh extend. An extend waits for extends only: after a
// shrink that was too much, growing back must not wait.
function lastChangeMs(changes: RecentChanges, direction: WantedChange["direction"]): number {
  const lastExtendMs = changes.extendsAtMs.at(-1) ?? Number.NEGATIVE_INFINITY;
  if (direction === "extend") return lastExtendMs;
  return Math.max(lastExtendMs, changes.shrinksAtMs.at(-1) ?? Number.NEGATIVE_INFINITY);
}

function holdForCount(
  question: Question,
  wanted: WantedChange,
  atMs: readonly number[],
  limit: number | undefined,
  spanMs: number,
  name: string,
): HoldPlan | undefined {
  const oldestMs = limit === undefined ? undefined : atMs.at(-limit);
  if (limit === undefined || oldestMs === undefined) return undefined;
  const eligibleAtMs = oldestMs + spanMs;
  if (!(question.facts.monotonicMs < eligibleAtMs)) return undefined;
  const message = `${wanted.because}; there were ${limit} changes within ${formatDuration(spanMs)}: ${name}`;
  return question.hold("TooManyChanges", message, detailsOf(wanted, { nextEligibleMs: question.wallMs(eligibleAtMs) }));
}

// What is urgent is counted with the others, and never comes here: a full filesystem stops its writer, a request and a minimum are people's
// own words, and neither can be left to what other volumes of the namespace have done.
function holdForNamespace(question: Question, wanted: WantedChange): HoldPlan | undefined {
  const { facts, ceilings } = question;
  if (ceilings.changesPerHour === undefined) return undefined;
  const { value: limit, policy } = ceilings.changesPerHour;
  const eligibleAtMs = (facts.rates?.nthLastInNamespace(limit) ?? Number.NEGATIVE_INFINITY) + HOUR_MS;
  if (!(facts.monotonicMs < eligibleAtMs)) return undefined;
  const message = `${wanted.because}; its namespace had ${limit} changes within 1h: the ceiling of ClusterVolumePolicy ${policy}`;
  const details = detailsOf(wanted, { nextEligibleMs: question.wallMs(eligibleAtMs) });
  return question.hold("TooManyChanges", message, { ...details, isTimeOfOthers: true });
}

// A driver that is asked once too often refuses for hours, a full filesystem's extend included: some are left for that.
function holdForDriver(question: Question, wanted: WantedChange): HoldPlan | undefined {
  const { facts, ceilings } = question;
  const ceiling = ceilings.modificationsPerDay.get(facts.claim.driver ?? "");
  if (ceiling === undefined) return undefined;
  const name = `driver ${facts.claim.driver} expands it no more often, by ClusterVolumePolicy ${ceiling.policy}`;
  return holdForCount(question, wanted, facts.changes.extendsAtMs, ceiling.value, DAY_MS, name);
}

// Asked last: only what nothing else holds takes a place among those that wait. A volume that waits for its node does not hold up those of
// other nodes.
function holdForTurn(question: Question, wanted: WantedChange, at: WaitsFor["at"]): HoldPlan | undefined {
  const { facts, ceilings } = question;
  const [operations, ceiling] = [facts.rates?.[at], ceilings.operations[at]];
  if (operations === undefined || ceiling === undefined) return undefined;
  const { value: limit, policy } = ceiling;
  const { direction } = wanted;
  if (operations.running + operations.waitingBefore(direction) < limit) return undefined;
  const where = at === "node" ? "on its node" : "in the cluster";
  const message = `${wanted.because}; it waits for its turn: ${where} ClusterVolumePolicy ${policy} allows ${limit} operations at once`;
  return question.hold("OperationsAtLimit", message, { ...detailsOf(wanted, {}), waits: { at, limit, direction } });
}

function changesOf(changes: RecentChanges, direction: WantedChange["direction"]): readonly number[] {
  return direction === "extend" ? changes.extendsAtMs : changes.shrinksAtMs;
}

function allChanges({ extendsAtMs, shrinksAtMs }: RecentChanges): readonly number[] {
  if (extendsAtMs.length + shrinksAtMs.length < MAX_CHANGES_PER_HOUR) return [];
  return [...extendsAtMs, ...shrinksAtMs].sort((a, b) => a - b);
}

/** Undefined: a change of the direction may start now, by its windows. `opensMs`: undefined where none opens again. */
export function closedUntil({ windows }: Pace, nowMs: number): { readonly opensMs: number | undefined } | undefined {
  if (windows.length === 0 || windows.some((window) => window.isOpen(nowMs))) return undefined;
  const nextMs = Math.min(...windows.map((window) => window.nextOpenMs(nowMs) ?? Number.POSITIVE_INFINITY));
  return { opensMs: Number.isFinite(nextMs) ? nextMs : undefined };
}

function holdForWindows(question: Question, wanted: WantedChange, pace: Pace): HoldPlan | undefined {
  const closed = closedUntil(pace, question.facts.nowMs);
  if (closed === undefined) return undefined;
  const message = `${wanted.because}; a ${wanted.direction} starts only in its windows: ${pace.windows.map(({ text }) => text).join(", ")}`;
  return question.hold("OutsideWindow", message, detailsOf(wanted, { nextEligibleMs: closed.opensMs }));
}

/** The plan, or that its windows are closed where they are so for longer than what the plan says. */
export function orOutsideWindow(question: Question, wanted: WantedChange, pace: Pace, plan: Plan): Plan {
  if (plan.kind !== "hold" || plan.nextEligibleMs === undefined) return plan;
  const outside = holdForWindows(question, wanted, pace);
  if (outside === undefined) return plan;
  return (outside.nextEligibleMs ?? Number.POSITIVE_INFINITY) > plan.nextEligibleMs ? outside : plan;
}

function detailsOf(
  wanted: WantedChange,
  more: { preview?: string; awaits?: Needed; nextEligibleMs?: number | undefined },
) {
  return { rule: wanted.rule?.name, uncappedBytes: wanted.uncappedBytes, ...more };
}

function preview({ facts }: Question, { direction, sizeBytes, members }: WantedChange): string {
  if (members !== undefined) return `merge its members into ${members}, of ${formatBytes(sizeBytes)}`;
  return `${direction} from ${formatBytes(facts.filesystem.sizeBytes)} to ${formatBytes(sizeBytes)}`;
}

// The whole story in one sentence; the rule's own message is added where it has one and can be evaluated.
function describe(question: Question, wanted: WantedChange, approval: Approval | undefined): string {
  const { rule, cappedBy } = wanted;
  const by = rule === undefined ? "" : `${rule.name}: `;
  const cap = cappedBy === undefined ? "" : `, capped by ${cappedBy}`;
  const consent = approval === undefined ? "" : `, approved by ${approval.name}`;
  const own = rule?.message?.evaluate(question.scope);
  const added = own?.ok === true ? ` (${own.value})` : "";
  return `${by}${wanted.because}; ${preview(question, wanted)}${cap}${consent}${added}`;
}
