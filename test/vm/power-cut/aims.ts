// Where the cuts of one life are aimed: as planned, and then again at what all lives have missed until now, so that the goals are reached
// without luck. Pure.
import { type CutPlan, type Life, missedGoals, type Span } from "./cut-plan.ts";

/** Of each life: each goal takes one or two. */
const CUTS_AGAIN = 16;

export interface Aims {
  /** Undefined: no cut any more. `phase` is what the cut before was at, as far as its own boot tells. */
  next(phase: string | undefined): Span | undefined;
}

export interface AimSettings {
  /** As planned. */
  readonly cuts: number;
  readonly reachesGoals: boolean;
  /** Of all lives; it grows. */
  readonly hits: ReadonlyMap<string, number>;
}

export function createAims(plan: CutPlan, life: Life, { cuts, reachesGoals, hits }: AimSettings): Aims {
  const goals = plan.goals.filter(({ deviceClass }) => deviceClass === undefined || deviceClass === life.deviceClass);
  const again: Span[] = [];
  let made = 0;
  return {
    next: (phase) => {
      made += 1;
      if (made <= cuts) return plan.aim(life.firstAim + made - 1);
      if (!reachesGoals || made > cuts + CUTS_AGAIN) return undefined;
      const seen = new Set([...hits.keys(), ...(phase === undefined ? [] : [phase])]);
      if (again.length === 0) again.push(...missedGoals(goals, seen).flatMap(({ aims }) => aims));
      return again.shift();
    },
  };
}
