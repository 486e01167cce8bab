// A kstatus condition as it is written into a status: dated when it changes, never when it is repeated. Pure: time is handed in.

import { printable } from "../printable.ts";
import type { ConditionReason, HoldReason } from "../reasons.ts";
import type { Condition } from "./schema.ts";

/** What kstatus reads. */
export type ConditionType = "Ready" | "Reconciling" | "Stalled";

/** What a process says, before it is dated. */
export type Statement = Pick<Condition, "type" | "status" | "reason" | "message">;

/** What we say ourselves has a reason of ours; what another reports is passed on as it is. */
export function statement(
  type: ConditionType,
  holds: boolean,
  reason: ConditionReason | HoldReason,
  message: string,
): Statement {
  return { type, status: holds ? "True" : "False", reason, message };
}

/** lastTransitionTime moves only when the status does. `before` are the object's conditions as last seen. */
export function datedCondition(
  { type, status, reason, message }: Statement,
  before: readonly Condition[] | undefined,
  observedGeneration: number | undefined,
  nowMs: number,
): Condition {
  const known = before?.find((condition) => condition.type === type);
  const lastTransitionTime = known?.status === status ? known.lastTransitionTime : wholeSecondTime(nowMs);
  return { type, status, reason, message: printable(message), lastTransitionTime, observedGeneration };
}

/** metav1.Time: RFC 3339 in whole seconds. */
function wholeSecondTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.\d+Z$/, "Z");
}
