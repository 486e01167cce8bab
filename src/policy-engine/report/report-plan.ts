// Says what was decided: the Filesystem's status.scaling and an Event, both from the plan alone, so that they agree. When to report is the
// engine's; it counts the metric and writes the log line right after, from the same plan.
import {
  CHANGE_TIMES_LIMIT,
  FILESYSTEMS,
  type Filesystem,
  FLAP_TIMES_LIMIT,
  type ScalingStatus,
} from "../../contracts/kinds/filesystem.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { printable } from "../../contracts/printable.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { onLatest, sameObject, versionOf } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import type { ChangePlan, Plan } from "../decide/plan.ts";
import type { MissedWindows } from "../facts/facts.ts";
import type { Change, Changes } from "../gather/operation-times.ts";

/** Holds that people should look at; the others are the quiet normal state and make no Event. */
const NOTABLE_HOLDS: ReadonlySet<HoldReason> = new Set<HoldReason>([
  "ApprovalRequired",
  "PolicyInvalid",
  "PauseUnreadable",
  "AtMaximum",
  "CeilingReached",
  "ExtendDidNotHelp",
  "WouldFlap",
  "WindowTooShort",
  "RuleError",
  "ShrinkFloorReached",
  "ShrinkNotCrashSafe",
  "ShrinkUnsupported",
  "TooManyChanges",
  "OtherAutoscaler",
  "ResizeInfeasible",
  "ReadOnly",
]);
const WARNINGS: ReadonlySet<HoldReason> = new Set<HoldReason>([
  "PolicyInvalid",
  "PauseUnreadable",
  "AtMaximum",
  "CeilingReached",
  "ExtendDidNotHelp",
  "RuleError",
  "ResizeInfeasible",
  "ReadOnly",
]);

/**
 * Writes on the version of the Filesystem that is handed in, or on a later one while `isWanted` says so of it. Returns whether it did:
 * nothing is said on a Filesystem that is gone, or another one by now. Throws KubeError.
 */
export async function reportPlan(
  client: KubeClient,
  events: EventRecorder,
  filesystem: Filesystem,
  plan: Plan,
  changes: Changes,
  nowMs: number,
  isWanted: (live: Filesystem) => boolean,
): Promise<boolean> {
  const scaling = { ...scalingStatus(plan, nowMs), ...changeTimes(changes) };
  const isWritten = await onLatest<Filesystem | undefined, boolean>(
    filesystem,
    async () => sameObject(filesystem, await client.get(FILESYSTEMS, filesystem.metadata)),
    async (live) => {
      if (live === undefined || !isWanted(live)) return false;
      await client.apply(
        "report/apply-status",
        FILESYSTEMS,
        { apiVersion: API_VERSION, kind: "Filesystem", metadata: versionOf(live), status: { scaling } },
        { fieldManager: FIELD_MANAGERS.policyEngine, force: true, subresource: "status" },
      );
      return true;
    },
  );
  if (isWritten) recordPlan(events, filesystem, plan);
  return isWritten;
}

/** The Event alone. */
export function recordPlan(events: EventRecorder, filesystem: Filesystem, plan: Plan): void {
  const event = eventOf(plan);
  if (event !== undefined) events.record(filesystem, event.type, event.reason, event.message);
}

function scalingStatus(plan: Plan, nowMs: number): ScalingStatus {
  const common = {
    policy: plan.policy,
    rule: plan.rule,
    plan: plan.kind,
    reason: plan.reason,
    message: printable(plan.message),
    uncapped: quantityOrNothing(plan.uncappedBytes),
    decidedAt: new Date(nowMs).toISOString(),
  };
  if (plan.kind !== "hold") return { ...common, target: formatQuantity(plan.sizeBytes) };
  const next = plan.nextEligibleMs;
  return {
    ...common,
    preview: plan.preview,
    nextEligibleTime: next === undefined ? undefined : new Date(next).toISOString(),
  };
}

function changeTimes(
  changes: Changes,
): Pick<ScalingStatus, "extendedAt" | "shrunkAt" | "flappedAt" | "peakBeforeShrink" | "missedWindows"> {
  const { peakBeforeShrinkBytes: peakBytes, flaps, missedWindows: missed } = changes;
  const texts = (of: readonly Change[]): string[] =>
    of.slice(-CHANGE_TIMES_LIMIT).map(({ stampMs }) => new Date(stampMs).toISOString());
  return {
    extendedAt: texts(changes.extends),
    shrunkAt: texts(changes.shrinks),
    ...(flaps.length === 0 ? {} : { flappedAt: texts(flaps).slice(-FLAP_TIMES_LIMIT) }),
    ...(peakBytes === undefined ? {} : { peakBeforeShrink: formatQuantity(peakBytes) }),
    ...(missed === undefined ? {} : { missedWindows: writtenMisses(missed) }),
  };
}

function writtenMisses(missed: MissedWindows): ScalingStatus["missedWindows"] {
  const { decidedAt, sizeBytes, usedBytes, policy, policyGeneration } = missed;
  return {
    decidedAt: [...decidedAt],
    size: formatQuantity(sizeBytes),
    used: formatQuantity(usedBytes),
    policy,
    policyGeneration,
  };
}

function quantityOrNothing(bytes: number | undefined): string | undefined {
  return bytes === undefined || !Number.isSafeInteger(Math.ceil(bytes)) ? undefined : formatQuantity(Math.ceil(bytes));
}

function eventReason({ kind, members }: ChangePlan): string {
  if (members !== undefined) return "Consolidating";
  return kind === "extend" ? "Extending" : "Shrinking";
}

function eventOf(plan: Plan): { type: "Normal" | "Warning"; reason: string; message: string } | undefined {
  if (plan.kind !== "hold") return { type: "Normal", reason: eventReason(plan), message: plan.message };
  if (!NOTABLE_HOLDS.has(plan.reason)) return undefined;
  return { type: WARNINGS.has(plan.reason) ? "Warning" : "Normal", reason: plan.reason, message: plan.message };
}
