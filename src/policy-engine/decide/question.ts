// One volume being decided: its facts, its policy, its ceilings. The rules are evaluated once, when a check first asks for them;
// the plans that checks return are made here, so that each carries what the process needs to go on.
import type { Mode } from "../../contracts/kinds/policy-ceilings.ts";
import { MESSAGE_CHARACTERS, shortened } from "../../contracts/printable.ts";
import type { ChangeReason, HoldReason } from "../../contracts/reasons.ts";
import type { Scope } from "../cel/term.ts";
import { type Facts, heldForMs } from "../facts/facts.ts";
import type { Approval, Needed } from "../policies/approvals.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import type { ChangePlan, Direction, HoldPlan, VainExtend, WaitsFor } from "./plan.ts";
import { evaluateRules, holds, type RuleRound, scopeOf } from "./rule-round.ts";

export class Question {
  readonly facts: Facts;
  /** Undefined: no policy selects the claim. */
  readonly policy: CompiledPolicy | undefined;
  readonly ceilings: Ceilings;
  #scope: Scope | undefined;
  #round: RuleRound | undefined;

  constructor(facts: Facts, policy: CompiledPolicy | undefined, ceilings: Ceilings) {
    this.facts = facts;
    this.policy = policy;
    this.ceilings = ceilings;
  }

  get scope(): Scope {
    this.#scope ??= scopeOf(this.facts);
    return this.#scope;
  }

  get round(): RuleRound {
    this.#round ??= evaluateRules(this.policy?.rules ?? [], this.scope);
    return this.#round;
  }

  /** The rules of one action that hold, and have held for as long as they ask. */
  firingRules(action: CompiledRule["action"]): CompiledRule[] {
    return this.heldRules(action).filter((rule) => this.heldForMs(rule) >= rule.forMs);
  }

  /** The rules of one action that hold at this instant. */
  heldRules(action: CompiledRule["action"]): CompiledRule[] {
    const { round } = this;
    if (round.held === 0) return [];
    return (this.policy?.rules ?? []).filter((rule, index) => rule.action === action && holds(round, index));
  }

  heldForMs(rule: CompiledRule): number {
    return heldForMs(this.facts.ruleTimers, rule.timerKey, this.facts);
  }

  /** A time of the monotonic clock as people read it. */
  wallMs(monotonicMs: number): number {
    return this.facts.nowMs + (monotonicMs - this.facts.monotonicMs);
  }

  hold(reason: HoldReason, message: string, details: HoldDetails = {}): HoldPlan {
    return {
      kind: "hold",
      reason,
      message: shortened(message, MESSAGE_CHARACTERS),
      policy: this.policy?.key,
      rule: details.rule,
      uncappedBytes: details.uncappedBytes,
      preview: details.preview,
      ...(details.awaits === undefined ? {} : { awaits: details.awaits }),
      nextEligibleMs: details.nextEligibleMs,
      ...(details.isTimeOfOthers === true ? { isTimeOfOthers: true } : {}),
      ...(details.stopsShrink === true ? { stopsShrink: true } : {}),
      ...(details.waits === undefined ? {} : { waits: details.waits }),
      heldRules: this.#round?.held,
      ...this.#ruleError(reason === "RuleError" ? message : undefined),
    };
  }

  /** `approval`: by which it is made; undefined: it needs none. */
  change(wanted: WantedChange, approval: Approval | undefined, message: string): ChangePlan {
    return {
      kind: wanted.direction,
      reason: wanted.reason,
      message: shortened(message, MESSAGE_CHARACTERS),
      policy: this.policy?.key,
      rule: wanted.rule?.name,
      uncappedBytes: wanted.uncappedBytes,
      fromBytes: this.facts.filesystem.sizeBytes,
      sizeBytes: wanted.sizeBytes,
      members: wanted.members,
      growthBytes: wanted.growthBytes,
      ...(approval === undefined ? {} : { approval }),
      ...(wanted.flap === true ? { flap: true } : {}),
      ...(wanted.peakBytes === undefined ? {} : { peakBytes: wanted.peakBytes }),
      vainExtend: wanted.vainExtend,
      heldRules: this.#round?.held,
      ...this.#ruleError(undefined),
    };
  }

  // A rule whose size fails is known by the plan alone.
  #ruleError(ofPlan: string | undefined): { ruleError?: string } {
    const failure = this.#round?.failure;
    const ofRound = failure?.kind === "RuleError" ? `${failure.rule.name}: ${failure.message}` : undefined;
    const error = ofPlan ?? ofRound;
    return error === undefined ? {} : { ruleError: shortened(error, MESSAGE_CHARACTERS) };
  }
}

/** What may be done with a change. */
export interface EffectiveMode {
  readonly mode: Mode;
  /** Names the ceiling or the field that sets it, to follow its name; empty: the policy's own mode does. */
  readonly by: string;
}

interface HoldDetails {
  readonly rule?: string | undefined;
  readonly uncappedBytes?: number | undefined;
  readonly preview?: string | undefined;
  readonly awaits?: Needed | undefined;
  readonly nextEligibleMs?: number | undefined;
  readonly isTimeOfOthers?: boolean;
  readonly stopsShrink?: boolean;
  readonly waits?: WaitsFor;
}

/** A change whose size is within all bounds; whether it may be made now is still to be asked. */
export interface WantedChange {
  readonly direction: Direction;
  readonly mode: EffectiveMode;
  readonly reason: ChangeReason;
  /** The rule that asks for it; undefined for limits and requests. */
  readonly rule: CompiledRule | undefined;
  readonly uncappedBytes: number;
  readonly sizeBytes: number;
  /** The most members that it shall have then; absent: any. */
  readonly members?: number;
  /** What it is larger by in between. */
  readonly growthBytes?: number;
  /** It takes back the last shrink. */
  readonly flap?: boolean;
  /** Of a shrink: the most that was used in the day before. */
  readonly peakBytes?: number;
  /** It is a rule's one step although larger does not help that. */
  readonly vainExtend?: VainExtend | undefined;
  /** Why this size, such as "86.0% of 1 GiB is used". */
  readonly because: string;
  /** What made it smaller than asked for. */
  readonly cappedBy: string | undefined;
  /** Waits for no cooldown, window or count: a writer is about to be stopped, or a person has asked for it. */
  readonly urgent: boolean;
}
