// Keeps every policy's status current: gathers, over all volumes, who decides what and which rules fail, and reports it shortly after a
// change. Written on change only.

import { isDeepStrictEqual } from "node:util";
import { CLUSTER_VOLUME_POLICIES, VOLUME_POLICIES } from "../../contracts/kinds/volume-policy.ts";
import type { Resource } from "../../contracts/kubernetes/object.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { onLatest, sameObject, versionOf } from "../../platform/kube/client/writes.ts";
import type { EventRecorder } from "../../platform/kube/events/events.ts";
import { AGAIN_AFTER_MS } from "../../platform/process/async/back-off.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Caches } from "../gather/caches.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { PolicyEntry } from "../policies/scope-policies.ts";
import { type PolicyFindings, policyStatus, problemsText, saysTheSame } from "./policy-status.ts";
import { type PolicyUse, policyUses, unused } from "./policy-uses.ts";
import type { FailingRules, RuleErrors } from "./rule-errors.ts";
import { createTurn } from "./turn.ts";

export interface PolicyReports {
  /** Reports soon what became of each policy; many changes at once make one report. */
  soon(): void;
  /** The same where only the rules that fail are others. */
  rulesFailed(): void;
  stop(): Promise<void>;
}

interface ReportsOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly caches: Pick<Caches, "layouts" | "claims" | "storageClasses" | "namespaces">;
  readonly policies: PolicyBook;
  readonly ruleErrors: Pick<RuleErrors, "of">;
  readonly isLeader: () => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Changes come in bursts (a sync from Git); the wait is short, since an author looks at the status right after. */
const GATHER_MS = 100;
/** Rules begin to fail, and recover, on a thousand volumes one by one … */
const GATHER_ERRORS_MS = 1000;
/** … of which one policy says something new this often. */
const ERRORS_INTERVAL_MS = 10_000;

export function createPolicyReports(options: ReportsOptions): PolicyReports {
  const { client, events, caches, policies, ruleErrors, isLeader, clock, log } = options;
  const timer = createSoonestTimer(clock.monotonicMs);
  let uses: ReadonlyMap<string, PolicyUse> = new Map();
  let isOutdated = true;
  let shown: ReadonlyMap<string, ShownErrors> = new Map();
  let running: Promise<void> = Promise.resolve();
  const report = async (): Promise<void> => {
    if (isOutdated) {
      isOutdated = false;
      uses = await policyUses(caches, policies, nextTurn);
    }
    const nowMs = clock.monotonicMs();
    const entries = [...policies.entries()];
    shown = new Map(
      entries.map(({ compiled: { key } }) => [key, nextErrors(shown.get(key), ruleErrors.of(key), nowMs)]),
    );
    const turn = createTurn();
    let failure: Error | undefined;
    for (const entry of entries) {
      await turn();
      const { key } = entry.compiled;
      const findings = { use: uses.get(key) ?? unused(), failing: shown.get(key)?.failing };
      // One that cannot be reported keeps no other from being.
      await reportPolicy(client, events, entry, findings, isLeader, clock.nowMs()).catch((error: unknown) => {
        failure = error as Error;
      });
    }
    const dueMs = Math.min(...[...shown.values()].map(({ againAtMs }) => againAtMs));
    if (dueMs < Number.POSITIVE_INFINITY) schedule(dueMs - nowMs);
    if (failure !== undefined) throw failure;
  };
  const schedule = (delayMs: number): void =>
    timer.within(delayMs, () => {
      if (!isLeader()) return;
      // One after the other: a report that began earlier must not overwrite a later one's.
      running = running.then(report).catch((error: unknown) => {
        log.warn({ err: error }, "policies were not reported; trying again");
        isOutdated = true;
        schedule(AGAIN_AFTER_MS.write);
      });
    });
  return {
    soon: () => {
      isOutdated = true;
      schedule(GATHER_MS);
    },
    rulesFailed: () => schedule(GATHER_ERRORS_MS),
    stop: async () => {
      timer.stop();
      await running;
    },
  };
}

/** One timer, which fires as early as it was last asked to, or before. */
function createSoonestTimer(monotonicMs: () => number) {
  let timer: NodeJS.Timeout | undefined;
  let dueMs = Number.POSITIVE_INFINITY;
  let isStopped = false;
  return {
    within: (delayMs: number, act: () => void): void => {
      const atMs = monotonicMs() + delayMs;
      if (isStopped || atMs >= dueMs) return;
      clearTimeout(timer);
      dueMs = atMs;
      timer = setTimeout(() => {
        dueMs = Number.POSITIVE_INFINITY;
        act();
      }, delayMs);
    },
    stop: (): void => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

interface ShownErrors {
  readonly failing: FailingRules | undefined;
  readonly sinceMs: number;
  /** When what has changed since is shown; Infinity: nothing has. */
  readonly againAtMs: number;
}

function nextErrors(before: ShownErrors | undefined, failing: FailingRules | undefined, nowMs: number): ShownErrors {
  const againAtMs = Number.POSITIVE_INFINITY;
  if (before === undefined)
    return { failing, sinceMs: failing === undefined ? Number.NEGATIVE_INFINITY : nowMs, againAtMs };
  if (isDeepStrictEqual(before.failing, failing)) return { ...before, againAtMs };
  const dueMs = before.sinceMs + ERRORS_INTERVAL_MS;
  return nowMs < dueMs ? { ...before, againAtMs: dueMs } : { failing, sinceMs: nowMs, againAtMs };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
/**
 * Writes the status when it says something new, on the version that it is said of. Nothing is written of a policy that its author has
 * changed since it was compiled, nor by a replica that has ceased to lead. Throws KubeError.
 */
export async function reportPolicy(
  client: KubeClient,
  events: EventRecorder,
  { object, compiled }: PolicyEntry,
  findings: PolicyFindings,
  isLeader: () => boolean,
  nowMs: number,
): Promise<void> {
  const ofPolicies: Resource<AnyPolicy> = object.kind === "VolumePolicy" ? VOLUME_POLICIES : CLUSTER_VOLUME_POLICIES;
  const isWritten = await onLatest<AnyPolicy | undefined, boolean>(
    object,
    async () => sameObject(object, await client.get(ofPolicies, object.metadata)),
    async (live) => {
      if (live === undefined || live.metadata.generation !== object.metadata.generation || !isLeader()) return false;
      const status = policyStatus(live, compiled, findings, nowMs);
      if (saysTheSame(live.status, status)) return false;
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
