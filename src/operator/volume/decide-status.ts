// What a Filesystem's status says of its layout, for people and for kstatus. Pure: time comes in. What is not known keeps
// what was said last, it never becomes 0.
import { type Statement, statement } from "../../api/condition.ts";
import type { ConsolidationNeed } from "../../api/consolidation.ts";
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import type { Condition } from "../../api/schema.ts";
import type { ApplyConfiguration } from "../../kube/client/client.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import { filesystemStatus } from "../filesystem-status.ts";
import type { ClassFailure } from "../member/member-growth.ts";
import { isRefused, refusalMessage, withRefusal } from "../member/refused-members.ts";
import type { MemberReport } from "../member/tend-members.ts";
import { unnamedMembers } from "./layout-facts.ts";
import { isHold, type TargetRefusal } from "./target-fields.ts";

export interface StatusFacts {
  readonly handle: string;
  readonly filesystem: Filesystem;
  readonly layout: FilesystemLayout | undefined;
  /** What the volume's records lack for the layout to be made again. */
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
  const { layout, missing, handle, lostNode } = facts;
  if (missing.length > 0) return statement("Ready", false, "MembersMissing", missingMessage(handle, missing));
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
  if (waiting.length > 0) return statement("Reconciling", true, "WaitingForMember", waiting.join("; "));
  if (refusal?.reason === "WaitingForNode") return statement("Reconciling", true, refusal.reason, refusal.message);
  if (refusal?.reason !== "WaitingForMember") return undefined;
  const why = members?.spare === undefined ? "" : `: ${members.spare}`;
  return statement("Reconciling", true, refusal.reason, `${refusal.message}${why}`);
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
  const message = refused.map((member) => refusalMessage(layout, member)).join("; ");
  return statement("Reconciling", false, "SignatureFound", message);
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
  const message = `class ${noGrowth.className} agreed to expand a member and did not grow its device (${failedAt}Z): members are added instead until ${until}Z`;
  return statement("Reconciling", false, "GrowthFailed", message);
}

/** A span has its node from its pod. */
function isUnused(layout: FilesystemLayout | undefined): boolean {
  return layout?.spec.backend === "span" && layout.spec.nodeName === undefined;
}

function stalledOf(facts: StatusFacts): Statement | undefined {
  const { layout, missing, refusal, members, handle, lostNode, unfit } = facts;
  if (missing.length > 0) return statement("Stalled", true, "MembersMissing", missingMessage(handle, missing));
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
  return unfit === undefined ? undefined : statement("Stalled", true, "NoNodeHasSlots", unfit);
}

/** What was told last of no node that can take it. */
export function unfitShown({ status }: Filesystem): string | undefined {
  return status?.conditions?.find(({ type, reason }) => type === "Stalled" && reason === "NoNodeHasSlots")?.message;
}

function missingMessage(handle: string, missing: readonly string[]): string {
  return (
    `FilesystemLayout ${handle} was deleted and cannot be made again: what is left of the volume lacks ${missing.join(", ")}; ` +
    "the data is untouched; restore the FilesystemLayout from a backup"
  );
}

function lostMessage(lostNode: string): string {
  return `${lostNode}, and the volume's data is there alone: it goes on when the node returns`;
}

function missingMembers({ status }: FilesystemLayout): string[] {
  return (status?.members ?? []).filter(({ state }) => state === "Missing").map(({ name }) => name);
}

function goneMessage({ spec }: FilesystemLayout, gone: readonly string[]): string {
  return `node ${spec.nodeName} does not find member ${gone.join(", ")}; nothing is made in its place`;
}

/** Mounted, it works for now, and no other node could mount it. The node's record has what the API server lost: drivers and volume handles. */
function unnamedMessage(
  { handle, layout }: StatusFacts,
  unnamed: readonly string[],
  reported: Condition | undefined,
): string {
  const names = unnamed.join(", ");
  const isOfMembers = reported?.status === "True" && reported.reason === "MembersMissing";
  const volumes = isOfMembers ? `. Its node says: ${reported.message}` : "";
  const isMounted = layout?.status?.mounted === true;
  const [filesystem, effect] = isMounted
    ? ["mounted filesystem", "its size stays, and no other node can mount it"]
    : ["filesystem", "no node mounts it without"];
  return (
    `the ${filesystem} has member ${names}, which FilesystemLayout ${handle} does not name any more (was it put back from a backup?): ` +
    `${effect}. Name ${names} in spec.members again, with the PersistentVolume and claim of its volume${volumes}`
  );
}

function conditionOf({ status }: FilesystemLayout, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}
