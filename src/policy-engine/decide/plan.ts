// What decide says about one volume: extend, shrink or hold, always with a public reason. Plain data: the condition, the event,
// the metric and the log line all say exactly this.
import type { ChangeReason, HoldReason } from "../../contracts/reasons.ts";
import type { Approval, Needed } from "../policies/approvals.ts";

export type Plan = ChangePlan | HoldPlan;
export type Direction = ChangePlan["kind"];

interface Conclusion {
  readonly message: string;
  /** The deciding policy's key; undefined where none selects the claim. */
  readonly policy: string | undefined;
  /** The rule that this is about. */
  readonly rule: string | undefined;
  /** What the rules ask for without limits, ceilings and steps. */
  readonly uncappedBytes: number | undefined;
  /** Bit i: rules[i] of the policy holds now. Undefined when no rule was evaluated. For advanceRuleTimers. */
  readonly heldRules: number | undefined;
  /** The rule that failed at run time, and its error. Absent: no rule did, or none was evaluated. */
  readonly ruleError?: string;
}

export interface ChangePlan extends Conclusion {
  readonly kind: "extend" | "shrink";
  readonly reason: ChangeReason;
  /** The size this was decided on. */
  readonly fromBytes: number;
  /** The size to change to, whole MiB unless a limit is not. */
  readonly sizeBytes: number;
  /** Of a shrink that waits for the next unmount: it is not begun from then on. */
  readonly notAfterMs?: number;
  /** The most members that it shall have then; absent: any. */
  readonly members?: number | undefined;
  /** What it is larger by in between. */
  readonly growthBytes?: number | undefined;
  /** An extend that takes back the last shrink; to be remembered, too. */
  readonly flap?: boolean | undefined;
  /** Of a shrink: the most that was used in the day before. */
  readonly peakBytes?: number | undefined;
  /** By which it is made, in mode Approve. */
  readonly approval?: Approval | undefined;
  /** To be remembered once it is written. */
  readonly vainExtend?: VainExtend | undefined;
}

/** An extend that was made by a rule which no size makes false. */
export interface VainExtend {
  readonly timerKey: string;
  /** What the rule asked for. Until the size is there, cut into steps or after a failure, nothing was in vain. */
  readonly wantedBytes: number;
  /** Bytes in use then, and what that step leaves. */
  readonly used: { readonly before: number; readonly left: number };
  /** Inodes; 0 where they have no limit, or are not measured. */
  readonly inodesUsed: VainExtend["used"];
  /** All else that the rule's answer or its size may depend on, as text. */
  readonly ground: string;
}

export interface HoldPlan extends Conclusion {
  readonly kind: "hold";
  readonly reason: HoldReason;
  /** What Enforce would do, in mode Approve or Recommend. */
  readonly preview: string | undefined;
  /** What an approval would have to cover; absent: none would help. */
  readonly awaits?: Needed | undefined;
  /** The earliest time of the next change, where only time stands against it. */
  readonly nextEligibleMs: number | undefined;
  /** That time moves with each change of other volumes: it is worth no report by itself. */
  readonly isTimeOfOthers?: boolean;
  /** The shrink that runs is no longer wanted: the size stays as far as it has come. */
  readonly stopsShrink?: boolean;
  /** It waits for its turn: no more than so many operations may run there. */
  readonly waits?: WaitsFor | undefined;
}

export interface WaitsFor {
  readonly at: "node" | "cluster";
  readonly limit: number;
  readonly direction: Direction;
}

/** The most that a plan makes it have, if only for a while; 0: nothing more than it has. */
export function mostBytes(plan: Plan): number {
  if (plan.kind === "extend") return plan.sizeBytes;
  return plan.kind === "shrink" && plan.growthBytes !== undefined ? plan.fromBytes + plan.growthBytes : 0;
}

/** Whether a change begins by it: one that waits for an unmount may never. */
export function beginsChange(plan: Plan): boolean {
  return plan.kind !== "hold" && plan.notAfterMs === undefined;
}

/** Previews and candidates that differ by less are the same to a reader, so that a status is not rewritten with every sample. */
const SAME_SIZE_RATIO = 0.05;

/** Whether a reader would learn nothing new from the second plan: what a reporter asks before it writes a status or an event. */
export function sameConclusion(a: Plan, b: Plan): boolean {
  if (a === b) return true;
  if (a.kind !== b.kind || a.reason !== b.reason || a.rule !== b.rule || a.policy !== b.policy) return false;
  if (a.kind !== "hold" || b.kind !== "hold")
    return a.kind !== "hold" && b.kind !== "hold" && a.sizeBytes === b.sizeBytes;
  const isTimeSame = b.isTimeOfOthers === true || isSameTime(a.nextEligibleMs, b.nextEligibleMs);
  return isTimeSame && isSameSize(a.uncappedBytes, b.uncappedBytes);
}

/** Two clocks bring it forth, which differ a little in each decision. */
const SAME_TIME_MS = 1000;

function isSameTime(a: number | undefined, b: number | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a === b || Math.abs(a - b) < SAME_TIME_MS;
}

function isSameSize(a: number | undefined, b: number | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return Math.abs(a - b) <= SAME_SIZE_RATIO * Math.max(a, b);
}
