// What a Filesystem's status says of its layout, for people and for kstatus. Pure: time comes in. What is not known keeps
// what was said last, it never becomes 0.

import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { ConsolidationNeed, Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { MESSAGE_CHARACTERS, shortened, withDetail } from "../../contracts/printable.ts";
import { formatBytes, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason } from "../../contracts/reasons.ts";
import { type Statement, statement } from "../../contracts/schema/condition.ts";
import type { Condition } from "../../contracts/schema/schema.ts";
import type { ApplyConfiguration } from "../../platform/kube/client/client.ts";
import { filesystemStatus } from "../volumes/layout-fields.ts";
import { isHold, type TargetRefusal } from "./decide-layout-write.ts";
import { unnamedMembers } from "./layout-facts.ts";
import { isRefused, refusalMessage, withRefusal } from "./members/decide-member-state.ts";
import type { ClassFailure } from "./members/member-growth.ts";

/** What users read about the members. */
export interface MemberReport {
  readonly waiting: readonly string[];
  readonly problem: { readonly reason: ConditionReason; readonly message: string } | undefined;
  /** Why there is no spare, though there shall be one; the volume is fine without. */
  readonly spare: string | undefined;
}

export interface StatusFacts {
  readonly handle: string;
  readonly filesystem: Filesystem;
  readonly layout: FilesystemLayout | undefined;
  /** What the volume's records lack for the layout to be recreated. */
  readonly missing: readonly string[];
  /** Why a target is not carried out. */
  readonly refusal: TargetRefusal | undefined;
  /** Of a span. */
  readonly members: MemberReport | undefined;
  /** Its members' class has lately failed to grow one. */
  readonly noGrowth: ClassFailure | undefined;
  /** "node n1 is out of service", where the only data of the volume is there. */
  readonly lostNode: string | undefined;
  /** For whose slots it is to have fewer members. */
  readonly consolidation: ConsolidationNeed | undefined;
  /** Why no node can take it. */
  readonly unfit: string | undefined;
}

export function decideStatus(facts: StatusFacts, nowMs: number): ApplyConfiguration {
  const { filesystem, layout, handle, consolidation } = facts;
  const capacityBytes = layout && filesystemSizeBytes(layout);
  const nodeName = layout?.status?.nodeName ?? layout?.spec.nodeName ?? filesystem.status?.nodeName;
  const lastTrim = layout?.status?.lastTrim ?? filesystem.status?.lastTrim;
  const said = { ready: readyOf(facts), reconciling: reconcilingOf(facts), stalled: stalledOf(facts) };
  return filesystemStatus(filesystem, { handle, capacityBytes, nodeName, lastTrim, consolidation, ...said }, nowMs);
}

function readyOf(facts: StatusFacts): Statement {
  const { layout, missing, lostNode } = facts;
  if (missing.length > 0) return statement("Ready", false, "MembersMissing", missingMessage(missing));
  if (lostNode !== undefined) return statement("Ready", false, "NodeLost", lostMessage(lostNode));
  const node = layout?.spec.nodeName ?? "its node";
  const unmade = layout?.status === undefined ? unmadeOf(facts) : undefined;
  if (unmade !== undefined) return { ...unmade, type: "Ready", status: "False" };
  if (layout?.status === undefined && isUnused(layout))
    return statement("Ready", false, "WaitingForNode", "no pod has used it yet: it is formatted on its first node");
  if (layout?.status === undefined)
    return statement("Ready", false, "WaitingForNode", `waiting for the first report of the agent on ${node}`);
  const gone = missingMembers(layout);
  if (gone.length > 0) return statement("Ready", false, "MembersMissing", goneMessage(layout, gone));
  const reported = conditionOf(layout, "Ready");
  if (reported !== undefined) return { ...reported, type: "Ready" };
  const bytes = filesystemSizeBytes(layout);
  return bytes === undefined
    ? statement("Ready", false, "Provisioning", `the agent on ${node} is making the filesystem`)
    : statement("Ready", true, "Ready", `${formatBytes(bytes)} on node ${node}`);
}

/** Why there is nothing yet that a pod could use. */
function unmadeOf(facts: StatusFacts): Statement | undefined {
  const problem = facts.members?.problem;
  return problem === undefined ? waitingOf(facts) : statement("Stalled", true, problem.reason, problem.message);
}

function reconcilingOf(facts: StatusFacts): Statement | undefined {
  const { layout, missing, lostNode } = facts;
  // Nothing goes on there, whatever was reported last.
  if (lostNode !== undefined) return undefined;
  const reported = layout && conditionOf(layout, "Reconciling");
  const running = runningOf(layout) ?? (reported?.status === "True" ? { ...reported, type: "Reconciling" } : undefined);
  const statementOfOurs =
    running ??
    waitingOf(facts) ??
    heldOf(facts) ??
    refusedOf(facts) ??
    sparelessOf(facts, reported) ??
    ungrownOf(facts);
  if (statementOfOurs !== undefined) return statementOfOurs;
  if (missing.length > 0 || layout?.status !== undefined || isUnused(layout)) return undefined;
  return statement("Reconciling", true, "WaitingForNode", "the node's agent has not taken it up yet");
}

function runningOf(layout: FilesystemLayout | undefined): Statement | undefined {
  const operation = layout?.status?.operation;
  if (!operation) return undefined;
  const [from, to] = [operation.from, operation.to].map((size) => formatBytes(parseQuantity(size)));
  const message = `${operation.kind} from ${from} to ${to}: ${operation.step}`;
  return statement("Reconciling", true, "OperationRunning", message);
}

function waitingOf({ members, refusal }: StatusFacts): Statement | undefined {
  const waiting = members?.waiting ?? [];
  if (waiting.length > 0) return statement("Reconciling", true, "WaitingForMember", firstOf(waiting));
  if (refusal?.reason === "WaitingForNode") return statement("Reconciling", true, refusal.reason, refusal.message);
  if (refusal?.reason !== "WaitingForMember") return undefined;
  return statement("Reconciling", true, refusal.reason, withDetail(refusal.message, members?.spare));
}

/** What is waited for first: the others have mostly come by then. */
function firstOf([first = "", ...others]: readonly string[]): string {
  const more = others.length === 0 ? "" : `; and for ${others.length} more`;
  return `${shortened(first, MESSAGE_CHARACTERS - more.length)}${more}`;
}

/** What cannot be had is a hold, and nothing is wrong with the volume. */
function heldOf({ refusal }: StatusFacts): Statement | undefined {
  return refusal?.reason === "ShrinkFloorReached" || refusal?.reason === "QuotaExceeded"
    ? statement("Reconciling", false, refusal.reason, refusal.message)
    : undefined;
}

/** Nothing is wrong with the volume: it becomes larger by others. */
function refusedOf({ layout }: StatusFacts): Statement | undefined {
  if (layout === undefined) return undefined;
  const refused = (layout.spec.members ?? []).map((member) => withRefusal(layout, member)).filter(isRefused);
  if (refused.length === 0) return undefined;
  return statement("Reconciling", false, "SignatureFound", refusalMessage(refused));
}

function sparelessOf({ members }: StatusFacts, reported: ReturnType<typeof conditionOf>): Statement | undefined {
  const spare = members?.spare ?? (reported?.reason === "SpareMissing" ? reported.message : undefined);
  return spare === undefined ? undefined : statement("Reconciling", false, "SpareMissing", spare);
}

/** Nothing is wrong with the volume: it becomes larger in another way. */
function ungrownOf({ noGrowth }: StatusFacts): Statement | undefined {
  if (noGrowth === undefined) return undefined;
  const [failedAt, until] = [noGrowth.failedAtMs, noGrowth.untilMs].map((ms) =>
    new Date(ms).toISOString().slice(0, 19),
  );
  const message = `class ${noGrowth.className} expanded a member and did not grow its device (${failedAt}Z): members are added instead until ${until}Z`;
  return statement("Reconciling", false, "GrowthFailed", message);
}

/** A span has its node from its pod. */
function isUnused(layout: FilesystemLayout | undefined): boolean {
  return layout?.spec.backend === "span" && layout.spec.nodeName === undefined;
}

function stalledOf(facts: StatusFacts): Statement | undefined {
  const { layout, missing, refusal, members, lostNode, unfit } = facts;
  if (missing.length > 0) return statement("Stalled", true, "MembersMissing", missingMessage(missing));
  if (lostNode !== undefined) return statement("Stalled", true, "NodeLost", lostMessage(lostNode));
  // A layout put back from a backup has much else that does not fit, and this is why.
  const unnamed = layout === undefined ? [] : unnamedMembers(layout);
  const reported = layout && conditionOf(layout, "Stalled");
  if (unnamed.length > 0) return statement("Stalled", true, "MembersMissing", unnamedMessage(facts, unnamed, reported));
  if (reported?.status === "True") return { ...reported, type: "Stalled" };
  const gone = layout === undefined ? [] : missingMembers(layout);
  if (layout !== undefined && gone.length > 0)
    return statement("Stalled", true, "MembersMissing", goneMessage(layout, gone));
  const wrong = members?.problem ?? (refusal === undefined || isHold(refusal) ? undefined : refusal);
  if (wrong !== undefined) return statement("Stalled", true, wrong.reason, wrong.message);
  return unfit === undefined ? undefined : statement("Stalled", true, "InsufficientAttachSlots", unfit);
}

/** The message of the last status that says that no node can take it. */
export function unfitShown({ status }: Filesystem): string | undefined {
  return status?.conditions?.find(({ type, reason }) => type === "Stalled" && reason === "InsufficientAttachSlots")
    ?.message;
}

function missingMessage(missing: readonly string[]): string {
  return withDetail("Restore the FilesystemLayout from a backup, or what the volume lacks", missing.join(", "));
}

function lostMessage(lostNode: string): string {
  return `${lostNode}, and it has the only copy of the data. The volume resumes when the node returns`;
}

function missingMembers({ status }: FilesystemLayout): string[] {
  return (status?.members ?? []).filter(({ state }) => state === "Missing").map(({ name }) => name);
}

function goneMessage({ spec }: FilesystemLayout, gone: readonly string[]): string {
  return `member ${gone.join(", ")} is missing on node ${spec.nodeName}. Tidemark never creates an empty replacement; restore the device`;
}

/** Mounted, it works for now, and no other node could mount it. The node's record has what the API server lost: drivers and volume handles. */
function unnamedMessage({ layout }: StatusFacts, unnamed: readonly string[], reported: Condition | undefined): string {
  const isMounted = layout?.status?.mounted === true;
  if (reported?.status === "True" && reported.reason === "MembersMissing") {
    const what = `add ${unnamed.join(", ")} to spec.members`;
    // Where it cannot be mounted nothing is left out: of the member's driver and volume nothing else says so much.
    return isMounted ? withDetail(what, reported.message) : `${what}: ${reported.message}`;
  }
  const effect = isMounted ? "resized or moved" : "mounted";
  return `add ${unnamed.join(", ")} to spec.members: the filesystem has it, and cannot be ${effect} without`;
}

function conditionOf({ status }: FilesystemLayout, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

/** An extend by a member is over by then, and has cost no write for what it waited for in between. */
const PASSING_MS = 3000;

/**
 * How long a status may stay unwritten, in milliseconds, that says what is on its way, and most likely has come before a user reads it. Until
 * then one that is behind the Filesystem's generation reads as "in progress". Undefined: it is written now.
 */
export function silentForMs(
  { status: reported, metadata }: Filesystem,
  layout: FilesystemLayout | undefined,
  wanted: ApplyConfiguration,
  nowMs: number,
): number | undefined {
  const ageMs = nowMs - Date.parse(layout?.spec.target?.decidedAt ?? "");
  if (!(ageMs >= 0 && ageMs < PASSING_MS) || reported?.observedGeneration === metadata.generation) return undefined;
  const { conditions = [], capacity } = wanted["status"] as NonNullable<Filesystem["status"]>;
  const before = reported?.conditions ?? [];
  const isSame = (type: string): boolean => statusOf(conditions, type) === statusOf(before, type);
  // Between two of its steps nothing is waited for: that this generation is reconciled would not be true yet.
  const isOnItsWay = statusOf(conditions, "Reconciling") === "True" || !isEnded(layout);
  const isElseTheSame = isSame("Ready") && isSame("Stalled") && capacity === reported?.capacity;
  return isOnItsWay && statusOf(before, "Reconciling") === "False" && isElseTheSame ? PASSING_MS - ageMs : undefined;
}

/** However that was. */
function isEnded(layout: FilesystemLayout | undefined): boolean {
  const { decidedAt } = layout?.spec.target ?? {};
  const last = layout?.status?.lastOperation;
  return (
    last?.decidedAt === decidedAt || Date.parse(layout?.status?.endedDecidedAt ?? "") >= Date.parse(decidedAt ?? "")
  );
}

function statusOf(conditions: readonly Condition[], type: string): Condition["status"] | undefined {
  return conditions.find((condition) => condition.type === type)?.status;
}
