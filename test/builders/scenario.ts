// Plays the scenarios that stand beside each ready-made policy: the story of one volume, decided step by step as the engine would.

import { decide } from "../../src/policy-engine/decide/decide.ts";
import type { Plan } from "../../src/policy-engine/decide/plan.ts";
import type { Facts } from "../../src/policy-engine/facts/facts.ts";
import { UsageHistory } from "../../src/policy-engine/facts/usage-history.ts";
import { NO_CEILINGS } from "../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../src/policy-engine/policies/compiled-policy.ts";
import { advanceRuleTimers, NO_RULE_TIMERS, type RuleTimers } from "../../src/policy-engine/rules/rule-timers.ts";
import { parseDuration } from "../../src/units/duration.ts";
import { formatQuantity, parseQuantity } from "../../src/units/quantity.ts";
import { parsePercent } from "../../src/units/ratio.ts";
import { aVolume, NOW_MS } from "./facts.ts";

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

class Player {
  sizeBytes = 0;
  usedBytes = 0;
  readonly #policy: CompiledPolicy;
  readonly #volume: ScenarioFile["volume"];
  readonly #intervalMs: number;
  readonly #history = new UsageHistory();
  readonly #changes = { extendsAtMs: [] as number[], shrinksAtMs: [] as number[] };
  #timers: RuleTimers = NO_RULE_TIMERS;
  #nowMs = 0;

  constructor(file: ScenarioFile, policy: CompiledPolicy) {
    this.#volume = file.volume;
    this.#intervalMs = parseDuration(file.sampleEvery);
    this.#policy = policy;
  }

  bytesOf(used: string): number {
    return used.endsWith("%") ? Math.round(parsePercent(used) * this.sizeBytes) : parseQuantity(used);
  }

  startAt(nowMs: number): void {
    this.#nowMs = nowMs;
    this.#sample();
  }

  play(step: Step): Decided {
    const atMs = NOW_MS + parseDuration(step.at);
    for (let timeMs = this.#nowMs + this.#intervalMs; timeMs < atMs; timeMs += this.#intervalMs) this.#pass(timeMs);
    this.usedBytes = this.bytesOf(step.used);
    const plan = this.#pass(atMs);
    if (plan.kind !== "hold") this.#carryOut(plan.kind, plan.sizeBytes);
    return {
      at: step.at,
      plan: plan.kind,
      reason: plan.reason,
      ...(plan.kind === "hold" ? {} : { to: formatQuantity(plan.sizeBytes) }),
      ...(plan.kind === "hold" && plan.preview !== undefined ? { preview: plan.preview } : {}),
    };
  }

  #carryOut(direction: "extend" | "shrink", sizeBytes: number): void {
    this.sizeBytes = sizeBytes;
    (direction === "extend" ? this.#changes.extendsAtMs : this.#changes.shrinksAtMs).push(this.#nowMs);
  }

  #pass(nowMs: number): Plan {
    this.#nowMs = nowMs;
    this.#sample();
    const plan = decide(this.#facts(), this.#policy, NO_CEILINGS);
    this.#timers = advanceRuleTimers(this.#timers, this.#policy, plan.heldRules, nowMs);
    return plan;
  }

  #sample(): void {
    this.#history.record(this.#nowMs, this.usedBytes, this.#intervalMs, this.#nowMs);
  }

  #facts(): Facts {
    const { backend } = this.#volume;
    const nominalBytes = parseQuantity(this.#volume.request);
    const initialSizeBytes = parseQuantity(this.#volume.initialSize ?? this.#volume.request);
    return aVolume({
      sizeBytes: this.sizeBytes,
      usedRatio: this.usedBytes / this.sizeBytes,
      reading: { sampledAtMs: this.#nowMs, intervalMs: this.#intervalMs },
      claim: { nominalBytes, initialSizeBytes, ...(backend === undefined ? {} : { backend }) },
      filesystem: { history: this.#history },
      facts: { nowMs: this.#nowMs, monotonicMs: this.#nowMs, ruleTimers: this.#timers, changes: this.#changes },
    });
  }
}
