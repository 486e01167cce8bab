// One round of a policy's rules over one volume: all are evaluated on one scope, and each holds, does not hold, or fails.
import type { FailureKind } from "../cel/errors.ts";
import type { NodeScope, Scope, VolumeScope } from "../cel/term.ts";
import type { Facts, MissingHistory } from "../facts/facts.ts";
import type { CompiledRule } from "../policies/compiled-policy.ts";

export interface RuleRound {
  /** Bit i: rules[i] holds. */
  readonly held: number;
  /** The first rule that failed, an Extend before any Shrink. */
  readonly failure: RuleFailure | undefined;
}

export interface RuleFailure {
  readonly rule: CompiledRule;
  readonly kind: FailureKind;
  readonly message: string;
}

/** Shared, since most rounds end like this. */
const NOTHING_HOLDS: RuleRound = { held: 0, failure: undefined };

/** Evaluates all rules. Never throws. At most 32 rules, as the schema says: one bit each. */
export function evaluateRules(rules: readonly CompiledRule[], scope: Scope): RuleRound {
  let held = 0;
  let failure: RuleFailure | undefined;
  for (let i = 0; i < rules.length; i += 1) {
    const rule = rules[i] as CompiledRule;
    const result = rule.when.evaluate(scope);
    if (result.ok) held |= result.value ? 1 << i : 0;
    else if (failure === undefined || (failure.rule.action === "Shrink" && rule.action === "Extend"))
      failure = { rule, kind: result.kind, message: result.message };
  }
  return held === 0 && failure === undefined ? NOTHING_HOLDS : { held, failure };
}

/** Whether rules[index] holds in a round. */
export function holds(round: RuleRound, index: number): boolean {
  return (round.held & (1 << index)) !== 0;
}

// The facts as CEL sees them: volume, node, now and the windows. All rules share the scope of a decision, since it memoises variables.
// Values are read when an expression asks, so most are never computed.

const NO_GROWTH_YET: MissingHistory = { missing: "growth is not measured yet" };
const UNKNOWN_NODE: NodeScope = { name: "", freeBytes: undefined, ioUtilizationRatio: undefined };

/** The scope of one decision. */
export function scopeOf(facts: Facts): Scope {
  return new FactsScope(facts);
}

class FactsScope implements Scope {
  readonly volume: VolumeScope;
  readonly #facts: Facts;

  constructor(facts: Facts) {
    this.#facts = facts;
    this.volume = new FactsVolume(facts);
  }

  get node(): NodeScope {
    return this.#facts.node ?? UNKNOWN_NODE;
  }

  get nowMs(): number {
    return this.#facts.nowMs;
  }

  usedBytesMax(windowMs: number): number | MissingHistory {
    return this.#facts.filesystem.history.maxUsedBytes(windowMs, this.#facts.monotonicMs);
  }

  growthBytesPerSecond(windowMs: number): number | MissingHistory {
    return this.#facts.filesystem.growth?.bytesPerSecond(windowMs, this.#facts.monotonicMs) ?? NO_GROWTH_YET;
  }
}

class FactsVolume implements VolumeScope {
  readonly #facts: Facts;

  constructor(facts: Facts) {
    this.#facts = facts;
  }

  get namespace(): string {
    return this.#facts.claim.namespace;
  }
  get name(): string {
    return this.#facts.claim.name;
  }
  get labels(): Readonly<Record<string, string>> {
    return this.#facts.claim.labels;
  }
  get annotations(): Readonly<Record<string, string>> {
    return this.#facts.claim.annotations;
  }
  get storageClassName(): string {
    return this.#facts.claim.storageClassName;
  }
  get backend(): string {
    return this.#facts.claim.backend;
  }
  get fsType(): string {
    return this.#facts.claim.fsType;
  }
  get nominalBytes(): number {
    return this.#facts.claim.nominalBytes;
  }
  get capacityBytes(): number | undefined {
    return this.#facts.filesystem.reading?.capacityBytes;
  }
  get usedBytes(): number | undefined {
    return this.#facts.filesystem.reading?.usedBytes;
  }
  get availableBytes(): number | undefined {
    return this.#facts.filesystem.reading?.availableBytes;
  }
  get usedRatio(): number | undefined {
    const reading = this.#facts.filesystem.reading;
    return reading === undefined ? undefined : reading.usedBytes / reading.capacityBytes;
  }
  get inodesTotal(): number | undefined {
    return this.#facts.filesystem.reading?.inodesTotal;
  }
  get inodesUsed(): number | undefined {
    return this.#facts.filesystem.reading?.inodesUsed;
  }
  get inodesUsedRatio(): number | undefined {
    const reading = this.#facts.filesystem.reading;
    if (reading?.inodesTotal === 0) return 0;
    if (reading?.inodesTotal === undefined || reading.inodesUsed === undefined) return undefined;
    return reading.inodesUsed / reading.inodesTotal;
  }
  get ageSeconds(): number {
    return Math.max(0, this.#facts.nowMs - this.#facts.claim.createdAtMs) / 1000;
  }
}
