// Decides many volumes under one time limit: the rules are other people's programs. When the limit ends a batch, the policy that
// has taken most of it is invalid from then on (it still guards minAvailable), and the batch goes on without it.
import type { Instant } from "../../process/clock.ts";
import { newGuidance } from "../apply/precautions.ts";
import { decide } from "../decide/decide.ts";
import type { Emergency } from "../decide/emergency-grant.ts";
import { mostBytes, type Plan } from "../decide/plan.ts";
import { type Gathered, gather, pendingTarget, type World } from "../gather/gather-facts.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import type { Guided, VolumeState } from "../gather/volume-registry.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { wishFor } from "../sizing/namespace-budget.ts";
import { cpuMs, createTimeLimit } from "./synchronous-time-limit.ts";

export interface Decided {
  readonly state: VolumeState;
  readonly gathered: Gathered;
  readonly policy: CompiledPolicy | undefined;
  readonly ceilings: Ceilings;
  readonly plan: Plan;
  readonly guidance: Guided | undefined;
  /** What it would be granted if its namespace had no budget; newGrant says how much of it is. */
  readonly grant: Emergency | undefined;
}

/** Far over what any honest batch takes, far under the lease's renew deadline. */
const BATCH_LIMIT_MS = 3000;
/** Volumes that share one limit. */
export const BATCH_VOLUMES = 500;

/**
 * The fullest first, who thereby has the first word on what they share. Each sees what was decided before it. Volumes whose
 * objects are not all there are left out.
 */
export type DecideBatch = (states: readonly VolumeState[], at: Instant) => Decided[];

/** `onBug` hears of a volume that could not be decided: its size stays, and the others are decided all the same. */
export function createDecideBatch(
  world: World,
  policies: PolicyBook,
  onBug: (handle: string, error: unknown) => void,
): DecideBatch {
  const limit = createTimeLimit(BATCH_LIMIT_MS);
  return (asking, at) => {
    const states = [...asking].sort((a, b) => fullRatio(b) - fullRatio(a));
    const decided: Decided[] = [];
    let next = 0;
    const spentMs = new Map<CompiledPolicy, number>();
    let asked: { readonly policy: CompiledPolicy; readonly sinceMs: number } | undefined;
    const decideOne = (state: VolumeState): void => {
      const pending = pendingTarget(state, at.monotonicMs);
      world.promises.begin(state.handle, pending?.mostBytes ?? 0);
      const gathered = gather(world, state, at);
      if (gathered === undefined) return;
      const { policy, ceilings } = policies.forClaim(gathered.facts.claim);
      asked = policy && { policy, sinceMs: cpuMs() };
      const plan = decide(gathered.facts, policy, ceilings);
      const guidance = newGuidance(state, gathered.facts, policy, ceilings);
      const wish = wishFor(gathered.facts, policy, ceilings, plan);
      const promisedBytes = mostBytes(plan);
      if (promisedBytes > 0) world.promises.extending(state.handle, promisedBytes);
      if (wish !== undefined) world.promises.wishing(state.handle, wish);
      decided.push({ state, gathered, policy, ceilings, plan, guidance, grant: wish?.grant });
      if (asked !== undefined) addSpent(spentMs, asked);
    };
    const work = (): void => {
      for (; next < states.length; next += 1) {
        const state = states[next];
        if (state === undefined) continue;
        try {
          decideOne(state);
        } catch (error) {
          onBug(state.handle, error);
        }
      }
    };
    while (limit.run(work) === "too slow") {
      if (asked !== undefined) addSpent(spentMs, asked);
      invalidateSlowest(policies, spentMs);
      spentMs.clear();
    }
    return decided;
  };
}

function fullRatio({ reading }: VolumeState): number {
  const usedRatio = reading === undefined ? 0 : reading.usedBytes / reading.capacityBytes;
  return Number.isFinite(usedRatio) ? usedRatio : 0;
}

function addSpent(spentMs: Map<CompiledPolicy, number>, asked: { policy: CompiledPolicy; sinceMs: number }): void {
  spentMs.set(asked.policy, (spentMs.get(asked.policy) ?? 0) + cpuMs() - asked.sinceMs);
}

function invalidateSlowest(policies: PolicyBook, spentMs: ReadonlyMap<CompiledPolicy, number>): void {
  const [slowest] = [...spentMs].sort(([, a], [, b]) => b - a);
  if (slowest === undefined) return;
  const [policy, durationMs] = slowest;
  policies.invalidate(policy, {
    field: "spec.rules",
    message: `evaluating them took ${Math.round(durationMs)} ms of the ${BATCH_LIMIT_MS} ms that ${BATCH_VOLUMES} volumes share`,
    hint: "make the expressions cheaper: fewer loops over labels and annotations, simpler patterns",
  });
}
