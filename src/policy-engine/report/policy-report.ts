// Tells a policy's author what became of it: Ready or Stalled with the first problems and their positions, conflicts, and how
// many filesystems it decides. Written on change only.
import { datedCondition } from "../../api/condition.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../api/names.ts";
import type { ConditionReason } from "../../api/reasons.ts";
import type { Condition } from "../../api/schema.ts";
import { CLUSTER_VOLUME_POLICIES, type PolicyStatus, VOLUME_POLICIES } from "../../api/volume-policy.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { onLatest, sameObject, versionOf } from "../../kube/client/on-latest.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { Resource } from "../../kube/object.ts";
import { formatQuantity } from "../../units/quantity.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { PolicyProblem } from "../policies/compiled-policy.ts";
import type { PolicyEntry } from "../policies/scope-policies.ts";

export interface PolicyUse {
  readonly matchedFilesystems: number;
  /** The most that these may have in all, in bytes, and how many of them no ceiling bounds. */
  readonly reachBytes: number;
  readonly withoutCeiling: number;
  readonly conflicts: ReadonlySet<string>;
}

const PROBLEMS_SHOWN = 5;
const CONFLICTS_SHOWN = 5;

/**
 * Writes the status when it says something new, on the version that it is said of. Nothing is written of a policy that its author has
 * changed since it was compiled, nor by a replica that has ceased to lead. Throws KubeError.
 */
export async function reportPolicy(
  client: KubeClient,
  events: EventRecorder,
  { object, compiled }: PolicyEntry,
  use: PolicyUse,
  isLeader: () => boolean,
  nowMs: number,
): Promise<void> {
  const ofPolicies: Resource<AnyPolicy> = object.kind === "VolumePolicy" ? VOLUME_POLICIES : CLUSTER_VOLUME_POLICIES;
  const isWritten = await onLatest<AnyPolicy | undefined, boolean>(
    object,
    async () => sameObject(object, await client.get(ofPolicies, object.metadata)),
    async (live) => {
      if (live === undefined || live.metadata.generation !== object.metadata.generation || !isLeader()) return false;
      const status = policyStatus(live, compiled.problems, use, nowMs);
      if (JSON.stringify(essence(live.status)) === JSON.stringify(essence(status))) return false;
      await client.apply(
        "policy/apply-status",
        ofPolicies,
        { apiVersion: API_VERSION, kind: object.kind, metadata: versionOf(live), status: { ...status } },
        { fieldManager: FIELD_MANAGERS.policyEngine, force: true, subresource: "status" },
      );
      return true;
    },
  );
  const { problems } = compiled;
  if (isWritten && problems.length > 0) events.record(object, "Warning", "CompileFailed", problemsText(problems));
}

function policyStatus(
  object: AnyPolicy,
  problems: readonly PolicyProblem[],
  use: PolicyUse,
  nowMs: number,
): PolicyStatus {
  const { generation } = object.metadata;
  const valid = problems.length === 0;
  const conflicts = [...use.conflicts].sort();
  const condition = (type: string, holds: boolean, reason: ConditionReason, message: string): Condition => {
    const status = holds ? "True" : "False";
    return datedCondition({ type, status, reason, message }, object.status?.conditions, generation, nowMs);
  };
  const reason = valid ? "Compiled" : "CompileFailed";
  const message = valid ? "all expressions compile" : problemsText(problems);
  return {
    observedGeneration: generation,
    matchedFilesystems: use.matchedFilesystems,
    reach: formatQuantity(Math.min(use.reachBytes, Number.MAX_SAFE_INTEGER)),
    withoutCeiling: use.withoutCeiling,
    conditions: [
      condition("Ready", valid, reason, message),
      condition("Stalled", !valid, reason, message),
      ...(conflicts.length === 0
        ? []
        : [
            condition(
              "Conflict",
              true,
              "Conflict",
              `same scope and priority as ${firstNames(conflicts)}: the oldest decides`,
            ),
          ]),
    ],
  };
}

function firstNames(keys: readonly string[]): string {
  const more = keys.length - CONFLICTS_SHOWN;
  return keys.slice(0, CONFLICTS_SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function problemsText(problems: readonly PolicyProblem[]): string {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ field, line, column, message, hint }) => {
    const position = line === undefined ? "" : `:${line}:${column}`;
    return `${field}${position}: ${message}${hint === undefined ? "" : ` (${hint})`}`;
  });
  const more = problems.length - lines.length;
  return more > 0 ? `${lines.join("; ")}; and ${more} more` : lines.join("; ");
}

// What a reader would see; times of unchanged conditions are carried over anyway.
function essence(status: PolicyStatus | undefined): unknown {
  const conditions = [...(status?.conditions ?? [])]
    .sort((a, b) => a.type.localeCompare(b.type))
    .map(({ type, status: holds, reason, message, observedGeneration }) => [
      type,
      holds,
      reason,
      message,
      observedGeneration,
    ]);
  const { observedGeneration, matchedFilesystems, reach, withoutCeiling } = status ?? {};
  return [observedGeneration, matchedFilesystems, reach, withoutCeiling, conditions];
}
