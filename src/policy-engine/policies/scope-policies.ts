// The policies of one namespace, or those of the cluster: which of them are compiled, which one is next, and which are too many. The
// oldest go on up to the namespace's budget. Compiling is the caller's, one policy at a time.

import { type AnyPolicy, outlinePolicy } from "./compile-policy.ts";
import type { CompiledPolicy, PolicyProblem, PolicySize } from "./compiled-policy.ts";
import { NO_SIZE, namespaceRefusal, sumOfSizes } from "./policy-budget.ts";

/** A policy object, and what it compiled to or why it does not. */
export interface PolicyEntry {
  readonly object: AnyPolicy;
  readonly compiled: CompiledPolicy;
}

interface Held {
  /** The newest that is known. */
  object: AnyPolicy;
  outline: CompiledPolicy;
  /** Of the newest object, once it was compiled. */
  size: PolicySize | undefined;
  /** What decides now; that of an earlier object until the newest one is compiled. */
  entry: PolicyEntry | undefined;
  /** Why the newest object is refused for what others of its namespace take. */
  refusal: PolicyProblem | undefined;
  /** How often it was invalidated, since its author last changed it or it went well for long, and what it compiled to. */
  slow: Slow | undefined;
}

interface Slow {
  readonly times: number;
  readonly compiled: CompiledPolicy;
  /** On the monotonic clock: when it was last tried again. */
  readonly triedAtMs: number | undefined;
}

/** One that goes well for so long after it was tried again is as one that was never slow. */
const FORGIVEN_AFTER_MS = 3_600_000;

/** It wins its volumes and guards their minAvailable at once. */
const NOT_COMPILED: PolicyProblem = { field: "spec.rules", message: "the policy is not compiled yet" };

export class ScopePolicies {
  readonly #namespace: string | undefined;
  readonly #held = new Map<string, Held>();
  #byAge: Held[] | undefined;

  /** `namespace`: undefined for the cluster's own, which have no budget but each its own. */
  constructor(namespace: string | undefined) {
    this.#namespace = namespace;
  }

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  /** Whether anything but the status is new. */
  put(object: AnyPolicy): boolean {
    const { name } = object.metadata;
    const known = this.#held.get(name);
    if (known !== undefined && isSamePolicy(known.object, object)) {
      if (known.entry !== undefined && isSamePolicy(known.entry.object, object))
        known.entry = { ...known.entry, object };
      known.object = object;
      return false;
    }
    const entry = known?.object.metadata.uid === object.metadata.uid ? known?.entry : undefined;
    this.#held.set(name, {
      object,
      outline: outlinePolicy(object),
      size: undefined,
      entry,
      refusal: undefined,
      slow: undefined,
    });
    this.#byAge = undefined;
    return true;
  }

  /** Whether it was there. */
  remove({ metadata }: AnyPolicy): boolean {
    this.#byAge = undefined;
    return this.#held.delete(metadata.name);
  }

  /** Compiles the oldest policy that has to be, and refuses those over the budget. Returns whether there may be more to do. */
  compileNext(compile: (object: AnyPolicy) => CompiledPolicy): boolean {
    let spent = NO_SIZE;
    let refusal: PolicyProblem | undefined;
    for (const held of this.#inOrderOfAge()) {
      // What its text says comes first: a policy that is refused for it is not compiled at all.
      refusal ??= this.#refusalOf(held, sumOfSizes(spent, held.size ?? held.outline.size));
      if (refusal !== undefined) refuse(held, refusal);
      else if (held.size === undefined || held.refusal !== undefined) {
        const compiled = compile(held.object);
        held.size = compiled.size;
        held.refusal = undefined;
        held.slow = undefined;
        held.entry = { object: held.object, compiled };
        return true;
      } else spent = sumOfSizes(spent, held.size);
    }
    return false;
  }

  /** Every policy as it decides, with the newest object of each. */
  *all(): Generator<{
    readonly object: AnyPolicy;
    readonly outline: CompiledPolicy;
    readonly compiled: CompiledPolicy;
  }> {
    for (const { object, outline, entry } of this.#held.values()) {
      const compiled = entry?.compiled ?? withProblem(outline, NOT_COMPILED);
      // Who suspends a policy does not wait for anything to be compiled.
      yield {
        object,
        outline,
        compiled: outline.suspended && !compiled.suspended ? { ...compiled, suspended: true } : compiled,
      };
    }
  }

  /** Those of which it is known whether they compile. */
  *entries(): Generator<PolicyEntry> {
    for (const { entry } of this.#held.values()) if (entry !== undefined) yield entry;
  }

  /**
   * Treats a policy as invalid until its object changes or it is tried again. `problemOf` gets how often it was so, this time included.
   * Returns whether it was found.
   */
  invalidate(compiled: CompiledPolicy, problemOf: (times: number) => PolicyProblem, monotonicMs: number): boolean {
    for (const held of this.#held.values()) {
      if (held.entry?.compiled !== compiled) continue;
      const { times = 0, triedAtMs = monotonicMs } = held.slow ?? {};
      const counted = monotonicMs - triedAtMs >= FORGIVEN_AFTER_MS ? 1 : times + 1;
      held.slow = { times: counted, compiled, triedAtMs: undefined };
      held.entry = { ...held.entry, compiled: withoutRules(compiled, problemOf(counted)) };
      return true;
    }
    return false;
  }

  /** Puts a policy that was invalidated into force again, unless its object has changed since. Returns whether it is. */
  tryAgain(compiled: CompiledPolicy, monotonicMs: number): boolean {
    for (const held of this.#held.values()) {
      if (held.slow?.compiled !== compiled || held.entry === undefined || held.refusal !== undefined) continue;
      held.slow = { ...held.slow, triedAtMs: monotonicMs };
      held.entry = { ...held.entry, compiled };
      return true;
    }
    return false;
  }

  #inOrderOfAge(): readonly Held[] {
    this.#byAge ??= [...this.#held.values()].sort((a, b) => compareAge(a.object, b.object));
    return this.#byAge;
  }

  #refusalOf({ object }: Held, size: PolicySize): PolicyProblem | undefined {
    return this.#namespace === undefined ? undefined : namespaceRefusal(this.#namespace, object.metadata.name, size);
  }
}

function refuse(held: Held, refusal: PolicyProblem): void {
  if (held.refusal?.message === refusal.message) return;
  held.refusal = refusal;
  held.entry = { object: held.object, compiled: withProblem(held.outline, refusal) };
}

function withoutRules(compiled: CompiledPolicy, problem: PolicyProblem): CompiledPolicy {
  return { ...compiled, rules: [], formerRules: compiled.rules, problems: [problem] };
}

function withProblem(outline: CompiledPolicy, problem: PolicyProblem): CompiledPolicy {
  return { ...outline, problems: [...outline.problems, problem] };
}

function isSamePolicy(a: AnyPolicy, b: AnyPolicy): boolean {
  return a.metadata.uid === b.metadata.uid && a.metadata.generation === b.metadata.generation;
}

// The UID decides between policies of the same second, so that every replica and every restart agrees.
function compareAge({ metadata: a }: AnyPolicy, { metadata: b }: AnyPolicy): number {
  return compare(a.creationTimestamp ?? "", b.creationTimestamp ?? "") || compare(a.uid ?? "", b.uid ?? "");
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
