// Keeps every policy's status current: gathers, over all volumes, who decides what, and reports it shortly after a change.
import type { KubeClient } from "../../kube/client/client.ts";
import type { EventRecorder } from "../../kube/events/events.ts";
import type { Logger } from "../../process/log.ts";
import type { Caches } from "../gather/caches.ts";
import { claimFactsOf } from "../gather/gather-facts.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import { reachBytes } from "../sizing/bounds.ts";
import { type PolicyUse, reportPolicy } from "./policy-report.ts";

export interface PolicyReports {
  /** Reports soon; many changes at once make one report. */
  soon(): void;
  stop(): Promise<void>;
}

/** Changes come in bursts (a sync from Git); the wait is short, since an author looks at the status right after. */
const GATHER_MS = 100;
const RETRY_MS = 5000;

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
        schedule(RETRY_MS);
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
