// Says on each ScalingApproval what became of it: whether a plan has needed it, whether it is over, and whether a plan waits that it names
// and does not cover. Written on change only, and shortly after one.
import {
  SCALING_APPROVALS,
  type ScalingApproval,
  type ScalingApprovalStatus,
} from "../../contracts/kinds/scaling-approval.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { MESSAGE_CHARACTERS, shortened } from "../../contracts/printable.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason } from "../../contracts/reasons.ts";
import { datedCondition } from "../../contracts/schema/condition.ts";
import type { Condition } from "../../contracts/schema/schema.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { versionOf } from "../../platform/kube/client/writes.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import { boundOf } from "../decide/modes.ts";
import { APPROVALS_LIMIT, type ApprovalBook, type ApprovalEntry } from "../gather/approval-book.ts";
import { isOver, isWithin, namesClaim } from "../policies/approvals.ts";
import type { ApprovalUses, WaitingPlan } from "./approval-uses.ts";
import { createTurn } from "./turn.ts";

interface ApprovalReports {
  /** Reports soon; many changes at once make one report. */
  soon(): void;
  stop(): Promise<void>;
}

interface ApprovalReportsOptions {
  readonly client: Pick<KubeClient, "apply">;
  readonly approvals: Pick<ApprovalBook, "entries">;
  readonly uses: ApprovalUses;
  /** Whether a volume is there still. */
  readonly isThere: (handle: string) => boolean;
  readonly isLeader: () => boolean;
  readonly nowMs: () => number;
  readonly log: Logger;
}

/** An approver looks at the status right after; a plan whose size moves is reported no more often. */
const GATHER_MS = 1000;
/** No timer is longer: one that ends later is read again by then. */
const LOOK_AGAIN_MS = 3_600_000;
/** Of one namespace: each approval is compared with no more of the plans that wait there. */
const WAITING_LIMIT = 256;

export function createApprovalReports(options: ApprovalReportsOptions): ApprovalReports {
  const { approvals, uses, isThere, isLeader, nowMs, log } = options;
  let timer: { readonly atMs: number; readonly id: NodeJS.Timeout } | undefined;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;
  const report = async (): Promise<void> => {
    const waiting = byNamespace(uses.waiting());
    const turn = createTurn();
    let failure: Error | undefined;
    let nextEndMs = Number.POSITIVE_INFINITY;
    for (const entry of [...approvals.entries()]) {
      await turn();
      const endMs = entry.approval?.notAfterMs ?? Number.NaN;
      if (endMs > nowMs()) nextEndMs = Math.min(nextEndMs, endMs);
      // One that cannot be reported keeps no other from being.
      await reportApproval(options, entry, waiting.get(entry.object.metadata.namespace ?? "") ?? []).catch(
        (error: unknown) => {
          failure = error as Error;
        },
      );
    }
    if (Number.isFinite(nextEndMs)) schedule(Math.min(LOOK_AGAIN_MS, nextEndMs - nowMs() + 1));
    if (failure !== undefined) throw failure;
  };
  const run = (): void => {
    timer = undefined;
    // What is noted is of no use once its approval or its volume is gone, on a replica that only watches, too.
    uses.retain(new Set([...approvals.entries()].flatMap(({ approval }) => approval?.wording ?? [])), isThere);
    if (!isLeader()) return;
    running = running.then(report).catch((error: unknown) => {
      log.warn({ err: error }, "approvals were not reported; trying again");
      schedule(AGAIN_AFTER_MS.write);
    });
  };
  const schedule = (delayMs: number): void => {
    const atMs = performance.now() + delayMs;
    if (stopped || (timer !== undefined && timer.atMs <= atMs)) return;
    clearTimeout(timer?.id);
    timer = { atMs, id: setTimeout(run, delayMs).unref() };
  };
  return {
    soon: () => schedule(GATHER_MS),
    stop: async () => {
      stopped = true;
      clearTimeout(timer?.id);
      await running;
    },
  };
}

function byNamespace(waiting: readonly WaitingPlan[]): Map<string, WaitingPlan[]> {
  const found = new Map<string, WaitingPlan[]>();
  for (const plan of waiting) {
    const those = found.get(plan.claim.namespace) ?? [];
    if (those.length < WAITING_LIMIT) those.push(plan);
    found.set(plan.claim.namespace, those);
  }
  return found;
}

/** On the version that it is said of: one that was changed since is reported with its change. */
async function reportApproval(
  { client, uses, isLeader, nowMs }: ApprovalReportsOptions,
  entry: ApprovalEntry,
  waiting: readonly WaitingPlan[],
): Promise<void> {
  const { object } = entry;
  const status = approvalStatus(entry, uses, waiting, nowMs());
  if (JSON.stringify(essence(object.status)) === JSON.stringify(essence(status)) || !isLeader()) return;
  await client.apply(
    "approval/apply-status",
    SCALING_APPROVALS,
    { apiVersion: API_VERSION, kind: "ScalingApproval", metadata: versionOf(object), status: { ...status } },
    { fieldManager: FIELD_MANAGERS.policyEngine, force: true, subresource: "status" },
  );
}

interface Said {
  readonly holds: boolean;
  readonly reason: ConditionReason;
  readonly message: string;
}

/** What is said of it. Pure but for what the process remembers. */
export function approvalStatus(
  entry: ApprovalEntry,
  uses: Pick<ApprovalUses, "firstBy">,
  waiting: readonly WaitingPlan[],
  nowMs: number,
): ScalingApprovalStatus {
  const { metadata, status } = entry.object;
  const condition = (type: string, { holds, reason, message }: Said): Condition =>
    datedCondition(
      { type, status: holds ? "True" : "False", reason, message: shortened(message, MESSAGE_CHARACTERS) },
      status?.conditions,
      metadata.generation,
      nowMs,
    );
  const narrow = narrowness(entry, waiting, nowMs);
  return {
    observedGeneration: metadata.generation,
    conditions: [
      condition("InUse", useOf(entry, uses, nowMs)),
      ...(narrow === undefined ? [] : [condition("TooNarrow", narrow)]),
    ],
  };
}

function useOf(
  { object, approval, isIgnored }: ApprovalEntry,
  uses: Pick<ApprovalUses, "firstBy">,
  nowMs: number,
): Said {
  const not = (reason: ConditionReason, message: string): Said => ({ holds: false, reason, message });
  if (approval === undefined)
    return not("ApprovalInvalid", "correct its sizes and notAfter: they cannot be read, and nothing is approved");
  if (isOver(approval, nowMs))
    return not(
      "Expired",
      `write a later notAfter, or delete it: it ended ${new Date(approval.notAfterMs).toISOString()}`,
    );
  if (isIgnored)
    return not(
      "TooManyApprovals",
      `delete some: the oldest ${APPROVALS_LIMIT} of a namespace that are not over count, and this one does not`,
    );
  // What has approved something did so, whatever was decided since, and whichever replica leads.
  const before = object.status?.conditions?.find(({ type }) => type === "InUse");
  if (before?.status === "True" && before.observedGeneration === object.metadata.generation)
    return { holds: true, reason: "InUse", message: before.message };
  const first = uses.firstBy(approval.wording);
  if (first === undefined) return not("Unused", "no plan has needed it so far");
  const { claim, needed } = first;
  const what = needed.action === "Extend" ? "an extend" : "a shrink";
  return {
    holds: true,
    reason: "InUse",
    message: `it has approved ${what} of claim ${claim} to ${formatBytes(needed.sizeBytes)}`,
  };
}

/** A plan that waits, and would not if this approval went further. */
function narrowness(
  { object, approval, isIgnored }: ApprovalEntry,
  waiting: readonly WaitingPlan[],
  nowMs: number,
): Said | undefined {
  if (approval === undefined || isIgnored || isOver(approval, nowMs)) return undefined;
  const first = waiting.find(
    ({ claim, needed }) =>
      needed.action === approval.action && !isWithin(approval, needed) && namesClaim(object.spec, claim),
  );
  if (first === undefined) return undefined;
  const { claim, needed } = first;
  const what = needed.action === "Extend" ? "an extend" : "a shrink";
  const message = `set ${boundOf(needed)}: ${what} of claim ${claim.name} to ${formatBytes(needed.sizeBytes)} waits, which it does not cover`;
  return { holds: true, reason: "TooNarrow", message };
}

// What a reader would see; times of unchanged conditions are carried over anyway.
function essence(status: ScalingApproval["status"]): unknown {
  const conditions = [...(status?.conditions ?? [])]
    .sort((a, b) => a.type.localeCompare(b.type))
    .map(({ type, status: holds, reason, message, observedGeneration }) => [
      type,
      holds,
      reason,
      message,
      observedGeneration,
    ]);
  return [status?.observedGeneration, conditions];
}
