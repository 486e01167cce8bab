// Keeps every policy's status current: gathers, over all volumes, who decides what, and reports it shortly after a change.

import { CLUSTER_VOLUME_POLICIES, type PolicyStatus, VOLUME_POLICIES } from "../../contracts/kinds/volume-policy.ts";
import type { Resource } from "../../contracts/kubernetes/object.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason } from "../../contracts/reasons.ts";
import { datedCondition } from "../../contracts/schema/condition.ts";
import type { Condition } from "../../contracts/schema/schema.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { onLatest, sameObject, versionOf } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Caches } from "../gather/caches.ts";
import { claimFactsOf } from "../gather/claim-facts.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { PolicyProblem } from "../policies/compiled-policy.ts";
import type { PolicyEntry } from "../policies/scope-policies.ts";
import { reachBytes } from "../sizing/sizes.ts";

interface PolicyReports {
  /** Reports soon; many changes at once make one report. */
  soon(): void;
  stop(): Promise<void>;
}

/** Changes come in bursts (a sync from Git); the wait is short, since an author looks at the status right after. */
const GATHER_MS = 100;

export function createPolicyReports(
  client: KubeClient,
  events: EventRecorder,
  caches: Caches,
  policies: PolicyBook,
  isLeader: () => boolean,
  nowMs: () => number,
  log: Logger,
): PolicyReports {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;
  const report = async (): Promise<void> => {
    const uses = policyUses(caches, policies);
    let failure: Error | undefined;
    for (const entry of policies.entries()) {
      const use = uses.get(entry.compiled.key) ?? unused();
      // One that cannot be reported keeps no other from being.
      await reportPolicy(client, events, entry, use, isLeader, nowMs()).catch((error: unknown) => {
        failure = error as Error;
      });
    }
    if (failure !== undefined) throw failure;
  };
  const schedule = (delayMs: number): void => {
    if (stopped || timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      if (!isLeader()) return;
      // One after the other: a report that began earlier must not overwrite a later one's.
      running = running.then(report).catch((error: unknown) => {
        log.warn({ err: error }, "policies were not reported; trying again");
        schedule(AGAIN_AFTER_MS.write);
      });
    }, delayMs);
  };
  return {
    soon: () => schedule(GATHER_MS),
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

function unused() {
  return { matchedFilesystems: 0, reachBytes: 0, withoutCeiling: 0, conflicts: new Set<string>() };
}

function policyUses(caches: Caches, policies: PolicyBook): Map<string, PolicyUse> {
  const uses = new Map<string, ReturnType<typeof unused>>();
  const useOf = (key: string) => {
    const use = uses.get(key) ?? unused();
    uses.set(key, use);
    return use;
  };
  for (const layout of caches.layouts.store.list()) {
    const claim = claimFactsOf(caches, layout);
    if (claim === undefined) continue;
    const { policy, conflicts, ceilings } = policies.forClaim(claim);
    if (policy === undefined) continue;
    const use = useOf(policy.key);
    use.matchedFilesystems += 1;
    use.reachBytes += reachBytes(claim, policy, ceilings);
    if (ceilings.maxBytes === undefined && ceilings.namespaceBytes === undefined) use.withoutCeiling += 1;
    for (const key of conflicts) {
      useOf(policy.key).conflicts.add(key);
      useOf(key).conflicts.add(policy.key);
    }
  }
  return uses;
}

// Reports to a policy's author what became of it: Ready or Stalled with the first problems and their positions, conflicts, and how many
// filesystems it decides. Written on change only.

interface PolicyUse {
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
