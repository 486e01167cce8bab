// What it costs to decide 100,000 volumes by three CEL rules each, beside the same decisions written by hand. Every answer of the
// one is compared with the other's: a fast wrong answer is no answer.
import { type CompiledPolicy, decide, type Facts, NO_CEILINGS, type Plan } from "../src/policy-engine/index.ts";
import { type Benchmark, quantile, round, type Say } from "./benchmark.ts";
import { makeFacts, makeTeams, policyOf, type Team } from "./decide/fleet.ts";
import { decideByHand, type HandWrittenPlan } from "./decide/hand-written.ts";

const VOLUMES = 100_000;
const POLICIES = 20;
const RULES = 3;
const ROUNDS = 7;

interface Fleet {
  readonly facts: readonly Facts[];
  readonly teams: readonly Team[];
  readonly policies: readonly CompiledPolicy[];
}

export const decideBenchmark: Benchmark = async (say) => {
  const fleet = makeFleet();
  say(`${VOLUMES} volumes under ${POLICIES} policies of ${RULES} rules; ${ROUNDS} rounds of each, the first one cold`);
  const rounds = Array.from({ length: ROUNDS }, () => ({
    cpuMs: cpuOf(() => decideAll(fleet)),
    handWrittenCpuMs: cpuOf(() => decideAllByHand(fleet)),
  }));
  for (const { cpuMs, handWrittenCpuMs } of rounds)
    say(`decide ${round(cpuMs, 0)} ms CPU, by hand ${round(handWrittenCpuMs, 0)} ms`);
  const plans = decideAll(fleet);
  comparePlans(fleet, plans, decideAllByHand(fleet));
  sayKinds(plans, say);
  return {
    volumes: VOLUMES,
    rules: RULES,
    policies: POLICIES,
    firingRatio: round(plans.filter(isFiring).length / VOLUMES, 4),
    cpuMs: round(median(rounds.map(({ cpuMs }) => cpuMs)), 1),
    handWrittenCpuMs: round(median(rounds.map(({ handWrittenCpuMs }) => handWrittenCpuMs)), 1),
  };
};

function makeFleet(): Fleet {
  const teams = makeTeams(POLICIES);
  const policies = teams.map(policyOf);
  const facts = Array.from({ length: VOLUMES }, (_, index) =>
    makeFacts(index, teamOf(teams, index), teamOf(policies, index)),
  );
  return { teams, facts, policies };
}

function teamOf<T>(all: readonly T[], index: number): T {
  return all[Math.floor(index / 7) % all.length] as T;
}

function decideAll({ facts, policies }: Fleet): Plan[] {
  return facts.map((one, index) => decide(one, teamOf(policies, index), NO_CEILINGS));
}

function decideAllByHand({ facts, teams }: Fleet): HandWrittenPlan[] {
  return facts.map((one, index) => decideByHand(one, teamOf(teams, index)));
}

function cpuOf(work: () => unknown): number {
  const start = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1000;
}

function comparePlans({ facts }: Fleet, plans: readonly Plan[], byHand: readonly HandWrittenPlan[]): void {
  plans.forEach((plan, index) => {
    const expected = byHand[index];
    const found = {
      kind: plan.kind,
      reason: plan.reason,
      rule: plan.rule,
      sizeBytes: plan.kind === "hold" ? undefined : plan.sizeBytes,
    };
    if (JSON.stringify(found) === JSON.stringify(expected)) return;
    const { reading } = facts[index]?.filesystem ?? {};
    throw new Error(
      `volume ${index} (${JSON.stringify(reading)}): decide says ${JSON.stringify(plan)}, by hand it is ${JSON.stringify(expected)}`,
    );
  });
}

/** A rule fires that asks for a change, whether or not something stands against it. */
function isFiring(plan: Plan): boolean {
  return plan.reason !== "WithinBounds" && plan.reason !== "RulePending";
}

function sayKinds(plans: readonly Plan[], say: Say): void {
  const counts = new Map<string, number>();
  for (const { kind, reason } of plans) counts.set(`${kind} ${reason}`, (counts.get(`${kind} ${reason}`) ?? 0) + 1);
  say(`all ${plans.length} plans equal: ${[...counts].map(([what, count]) => `${what} ${count}`).join(", ")}`);
}

function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}
