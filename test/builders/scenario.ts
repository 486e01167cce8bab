// Plays the scenarios that stand beside each ready-made policy: the story of one volume, decided step by step as the engine would.

import { parseDuration } from "../../src/contracts/quantities/duration.ts";
import { formatQuantity, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { parsePercent } from "../../src/contracts/quantities/ratio.ts";
import { decide } from "../../src/policy-engine/decide/decide.ts";
import type { ChangePlan, Plan } from "../../src/policy-engine/decide/plan.ts";
import { advanceVainExtends } from "../../src/policy-engine/decide/vain-extends.ts";
import {
  advanceRuleTimers,
  type Facts,
  type Flaps,
  NO_RULE_TIMERS,
  NO_VAIN_EXTENDS,
  type RuleTimers,
} from "../../src/policy-engine/facts/facts.ts";
import { type GrowthHistory, growthHistoryFor } from "../../src/policy-engine/facts/growth-history.ts";
import { UsageHistory } from "../../src/policy-engine/facts/usage-history.ts";
import { NO_CEILINGS } from "../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, NOW_MS } from "./facts.ts";

const DAY_MS = 86_400_000;

export interface ScenarioFile {
  sampleEvery: string;
  knownFor: string;
  volume: { request: string; initialSize?: string; backend?: "claim" };
  scenarios: Scenario[];
}

export interface Scenario {
  name: string;
  knownFor?: string;
  steps: Step[];
}

interface Step {
  at: string;
  /** Of the first step: the volume's size. */
  size?: string;
  used: string;
  plan: Plan["kind"];
  reason: Plan["reason"];
  to?: string;
  preview?: string;
}

/** What was decided at a step, in the words of the step. */
export type Decided = Pick<Step, "at" | "plan" | "reason" | "to" | "preview">;

/** Plays a scenario and says what was decided at each of its steps. */
export function playScenario(file: ScenarioFile, scenario: Scenario, policy: CompiledPolicy): Decided[] {
  const player = new Player(file, policy);
  const [first] = scenario.steps;
  player.sizeBytes = parseQuantity(first?.size ?? file.volume.request);
  player.usedBytes = player.bytesOf(first?.used ?? "0");
  player.startAt(NOW_MS - parseDuration(scenario.knownFor ?? file.knownFor));
  return scenario.steps.map((step) => player.play(step));
}

export class Player {
  sizeBytes = 0;
  usedBytes = 0;
  readonly #policy: CompiledPolicy;
  readonly #volume: ScenarioFile["volume"];
  readonly #intervalMs: number;
  readonly #history = new UsageHistory();
  readonly #growth: GrowthHistory | undefined;
  readonly #changes = { extendsAtMs: [] as number[], shrinksAtMs: [] as number[] };
  #flaps: Flaps = { atMs: [], peakBeforeShrinkBytes: undefined };
  #timers: RuleTimers = NO_RULE_TIMERS;
  #vainExtends = NO_VAIN_EXTENDS;
  #nowMs = 0;

  constructor({ volume, sampleEvery }: Omit<ScenarioFile, "knownFor" | "scenarios">, policy: CompiledPolicy) {
    this.#volume = volume;
    this.#intervalMs = parseDuration(sampleEvery);
    this.#policy = policy;
    this.#growth = growthHistoryFor(undefined, policy.growthWindowsMs);
  }

  bytesOf(used: string): number {
    return used.endsWith("%") ? Math.round(parsePercent(used) * this.sizeBytes) : parseQuantity(used);
  }

  startAt(nowMs: number): void {
    this.#nowMs = nowMs;
    this.#sample();
  }

  /** The change that is decided at this time is made at once. */
  step(nowMs: number, usedBytes: number): Plan {
    this.usedBytes = usedBytes;
    const plan = this.#pass(nowMs);
    if (plan.kind !== "hold") this.#carryOut(plan);
    return plan;
  }

  play(step: Step): Decided {
    const atMs = NOW_MS + parseDuration(step.at);
    for (let timeMs = this.#nowMs + this.#intervalMs; timeMs < atMs; timeMs += this.#intervalMs) this.#pass(timeMs);
    const plan = this.step(atMs, this.bytesOf(step.used));
    return {
      at: step.at,
      plan: plan.kind,
      reason: plan.reason,
      ...(plan.kind === "hold" ? {} : { to: formatQuantity(plan.sizeBytes) }),
      ...(plan.kind === "hold" && plan.preview !== undefined ? { preview: plan.preview } : {}),
    };
  }

  #carryOut({ kind, sizeBytes, vainExtend, flap, peakBytes }: ChangePlan): void {
    this.#flaps = {
      atMs: flap === true ? [...this.#flaps.atMs, this.#nowMs] : this.#flaps.atMs,
      peakBeforeShrinkBytes: peakBytes ?? this.#flaps.peakBeforeShrinkBytes,
    };
    this.sizeBytes = sizeBytes;
    if (vainExtend !== undefined) this.#vainExtends = new Map(this.#vainExtends).set(vainExtend.timerKey, vainExtend);
    const atMs = kind === "extend" ? this.#changes.extendsAtMs : this.#changes.shrinksAtMs;
    atMs.push(this.#nowMs);
    while ((atMs[0] ?? 0) <= this.#nowMs - DAY_MS) atMs.shift();
  }

  #pass(nowMs: number): Plan {
    this.#nowMs = nowMs;
    this.#sample();
    const facts = this.#facts();
    const plan = decide(facts, this.#policy, NO_CEILINGS);
    this.#timers = advanceRuleTimers(this.#timers, this.#policy, plan.heldRules, facts);
    this.#vainExtends = advanceVainExtends(this.#vainExtends, this.#policy, plan.heldRules);
    return plan;
  }

  #sample(): void {
    this.#history.record(this.#nowMs, this.usedBytes, this.#intervalMs, this.#nowMs);
    this.#growth?.record(this.#nowMs, this.usedBytes);
  }

  #facts(): Facts {
    const { backend } = this.#volume;
    const nominalBytes = parseQuantity(this.#volume.request);
    const initialSizeBytes = parseQuantity(this.#volume.initialSize ?? this.#volume.request);
    return aVolume({
      sizeBytes: this.sizeBytes,
      usedRatio: this.usedBytes / this.sizeBytes,
      reading: { takenMs: this.#nowMs, intervalMs: this.#intervalMs },
      claim: { nominalBytes, initialSizeBytes, ...(backend === undefined ? {} : { backend }) },
      filesystem: { history: this.#history, growth: this.#growth },
      facts: {
        nowMs: this.#nowMs,
        monotonicMs: this.#nowMs,
        ruleTimers: this.#timers,
        vainExtends: this.#vainExtends,
        changes: this.#changes,
        flaps: this.#flaps,
      },
    });
  }
}
