// The policies in force: compiled when they change, a few at a time, and selected per claim. It writes nothing.

import { formatDuration } from "../../contracts/quantities/duration.ts";
import { NO_LABELS } from "../../contracts/schema/label-selector.ts";
import { BACK_OFFS, backOffMs } from "../../platform/process/async/back-off.ts";
import { createPatternCache } from "../cel/functions/patterns.ts";
import { createTimeLimit } from "../engine/own-limits.ts";
import type { ClaimFacts } from "../facts/facts.ts";
import { type AnyPolicy, compilePolicy, outlinePolicy } from "../policies/compile-policy.ts";
import type { CompiledPolicy, PolicyProblem } from "../policies/compiled-policy.ts";
import { type PolicyEntry, ScopePolicies } from "../policies/scope-policies.ts";
import { compileCeilings, PolicySet, type Selected } from "../policies/select-policy.ts";
import type { Caches } from "./caches.ts";

export interface PolicyBook {
  /** Who decides the claim, and under which ceilings. `known`, an answer for it, is given again where it would be the same. */
  forClaim(claim: ClaimFacts, known?: Selected): Selected;
  /** Every policy object of which it is known whether it compiles, with what it compiled to. */
  entries(): Iterable<PolicyEntry>;
  /** Treats a policy as invalid for this reason, until its author changes it or a back-off has passed; the problem names that time. */
  invalidate(compiled: CompiledPolicy, problem: PolicyProblem): void;
}

export interface LivePolicyBook extends PolicyBook {
  /** Resolves once every policy that is known is compiled or refused. */
  settled(): Promise<void>;
  stop(): void;
}

/** Many times what the largest policy within its budget takes on a slow machine. */
const COMPILE_LIMIT_MS = 2000;
/** The cluster's own policies: no namespace has an empty name. */
const CLUSTER = "";

/** All volumes are decided again after this long, also while more policies are compiled. */
const ANNOUNCE_LIMIT_MS = 2000;

/** `onChange` hears of changes after they are in force; those that come while policies are compiled are one. */
export function createPolicyBook(
  caches: Pick<Caches, "policies" | "clusterPolicies" | "namespaces">,
  monotonicMs: () => number,
  onChange: () => void,
): LivePolicyBook {
  const scopes = new Map<string, ScopePolicies>();
  const compile = createLimitedCompile();
  let set: PolicySet | undefined;
  const announcement = createAnnouncement(onChange);
  const changed = (): void => {
    set = undefined;
    announcement.soon(turns.isIdle());
  };
  const turns = createCompileTurns({
    step: (scope) => scopes.get(scope)?.compileNext(compile) ?? false,
    onTurn: changed,
    monotonicMs,
  });
  const slow = createSlowPolicies(scopes, monotonicMs, changed);
  const policiesOf = (scope: string): ScopePolicies => {
    const known = scopes.get(scope) ?? new ScopePolicies(scope === CLUSTER ? undefined : scope);
    scopes.set(scope, known);
    return known;
  };
  const put = (object: AnyPolicy): void => {
    const scope = scopeOf(object);
    if (!policiesOf(scope).put(object)) return;
    changed();
    turns.soon(scope);
  };
  const remove = (object: AnyPolicy): void => {
    const scope = scopeOf(object);
    const policies = scopes.get(scope);
    if (policies?.remove(object) !== true) return;
    if (policies.isEmpty) scopes.delete(scope);
    changed();
    turns.soon(scope);
  };
  const handlers = { added: put, updated: put, deleted: remove };
  caches.policies.subscribe(handlers);
  caches.clusterPolicies.subscribe(handlers);
  return {
    forClaim: (claim, known) => {
      set ??= setOf(scopes.values());
      const namespaceLabels = caches.namespaces.store.get(claim.namespace)?.metadata.labels ?? NO_LABELS;
      return known === undefined ? set.select(claim, namespaceLabels) : set.again(known, claim, namespaceLabels);
    },
    entries: () => [...scopes.values()].flatMap((policies) => [...policies.entries()]),
    invalidate: slow.invalidate,
    settled: turns.settled,
    stop: () => {
      slow.stop();
      turns.stop();
      announcement.stop();
    },
  };
}

/** Those that were invalidated, and are tried again after a back-off. */
function createSlowPolicies(
  scopes: ReadonlyMap<string, ScopePolicies>,
  monotonicMs: () => number,
  onChange: () => void,
): Pick<LivePolicyBook, "invalidate" | "stop"> {
  const timers = new Set<NodeJS.Timeout>();
  const inOne = (change: (policies: ScopePolicies) => boolean): boolean => [...scopes.values()].some(change);
  const after = (waitMs: number, retry: () => void): void => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      retry();
    }, waitMs);
    timers.add(timer);
  };
  return {
    invalidate: (compiled, problem) => {
      let waitMs = 0;
      const problemOf = (times: number): PolicyProblem => {
        waitMs = backOffMs(times, BACK_OFFS.slowPolicy, Math.random());
        return { ...problem, message: `${problem.message}; tried again after ${formatDuration(waitMs)}` };
      };
      if (!inOne((policies) => policies.invalidate(compiled, problemOf, monotonicMs()))) return;
      onChange();
      after(waitMs, () => {
        if (inOne((policies) => policies.tryAgain(compiled, monotonicMs()))) onChange();
      });
    },
    stop: () => {
      for (const timer of timers) clearTimeout(timer);
      timers.clear();
    },
  };
}

/** Once policies are compiled, or after a limit; many that are asked for are one. */
function createAnnouncement(announce: () => void) {
  let timer: NodeJS.Timeout | undefined;
  let dueAtOnce: NodeJS.Immediate | undefined;
  const stop = (): void => {
    clearTimeout(timer);
    clearImmediate(dueAtOnce);
    timer = undefined;
    dueAtOnce = undefined;
  };
  const now = (): void => {
    stop();
    announce();
  };
  return {
    soon: (atOnce: boolean): void => {
      if (atOnce) dueAtOnce ??= setImmediate(now);
      else timer ??= setTimeout(now, ANNOUNCE_LIMIT_MS);
    },
    stop,
  };
}

function scopeOf({ kind, metadata }: AnyPolicy): string {
  return kind === "VolumePolicy" ? (metadata.namespace ?? "default") : CLUSTER;
}

function setOf(scopes: Iterable<ScopePolicies>): PolicySet {
  const all = [...scopes].flatMap((policies) => [...policies.all()]);
  return new PolicySet(
    all.map(({ compiled }) => compiled),
    all.flatMap(({ object, outline }) =>
      object.kind === "ClusterVolumePolicy" ? (compileCeilings(object, outline) ?? []) : [],
    ),
  );
}

/** A policy that takes too long all the same is invalid, and no other. */
function createLimitedCompile(): (object: AnyPolicy) => CompiledPolicy {
  const limit = createTimeLimit(COMPILE_LIMIT_MS);
  const cache = createPatternCache();
  return (object) => {
    const compiled = limit.run(() => compilePolicy(object, cache));
    if (compiled !== "too slow") return compiled;
    const problem = {
      field: "spec.rules",
      message: `compiling the policy took more than ${COMPILE_LIMIT_MS} ms`,
      hint: "write fewer and shorter expressions; any change to the policy has it compiled again",
    };
    const outline = outlinePolicy(object);
    return { ...outline, problems: [...outline.problems, problem] };
  };
}

// Compiles policies in short turns, one namespace after another, with decisions in between. At most half of the thread's time goes into
// compiling, however many policies change.

/** A turn ends with the policy that passes it. */
const TURN_MS = 10;
/** However long a turn was, as on a machine that stands still. */
const LONGEST_PAUSE_MS = 250;

interface CompileTurns {
  /** There is something to do in this scope. Where no turn was just held, it is begun at once. */
  soon(scope: string): void;
  /** Nothing is left to do. */
  isIdle(): boolean;
  /** Resolves once nothing is left to do. */
  settled(): Promise<void>;
  stop(): void;
}

interface TurnOptions {
  /** Compiles one policy of the scope; whether there may be more to do. Never throws. */
  readonly step: (scope: string) => boolean;
  /** After each turn. */
  readonly onTurn: () => void;
  readonly monotonicMs: () => number;
}

export function createCompileTurns({ step, onTurn, monotonicMs }: TurnOptions): CompileTurns {
  const scopes = new Set<string>();
  let pause: NodeJS.Timeout | undefined;
  let isStopped = false;
  let waiting: (() => void)[] = [];

  const turn = (): void => {
    pause = undefined;
    const sinceMs = monotonicMs();
    for (const scope of scopes) {
      scopes.delete(scope);
      // Behind all others, which have their turn first.
      if (step(scope)) scopes.add(scope);
      if (monotonicMs() - sinceMs >= TURN_MS) break;
    }
    onTurn();
    if (scopes.size === 0) {
      for (const resolve of waiting) resolve();
      waiting = [];
    }
    const tookMs = monotonicMs() - sinceMs;
    pause = setTimeout(turnOrRest, Math.min(LONGEST_PAUSE_MS, tookMs));
  };
  const turnOrRest = (): void => {
    pause = undefined;
    if (scopes.size > 0) turn();
  };
  return {
    soon: (scope) => {
      if (isStopped) return;
      scopes.add(scope);
      if (pause === undefined) turn();
    },
    isIdle: () => scopes.size === 0,
    settled: () => (scopes.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    stop: () => {
      isStopped = true;
      scopes.clear();
      clearTimeout(pause);
    },
  };
}
