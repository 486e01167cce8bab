// What looks at pods, slots and members have found: the filesystems that may help a pod by fewer members, and those that no node can take.
// People are told what differs from the look before.
import { isDeepStrictEqual } from "node:util";
import type { Pod } from "../../kube/resources.ts";
import type { Clock } from "../../process/clock.ts";
import { decideNeeds, type Need, type SeenNeeds, waitingForSlots } from "./decide-needs.ts";
import { decideUnfit, type Unfit } from "./decide-unfit.ts";
import { type ConsolidationTelling, tellNeed, tellUnfit } from "./tell-consolidation.ts";

export interface ConsolidationWatching extends ConsolidationTelling {
  readonly seen: Omit<SeenNeeds, "pods">;
  readonly clock: Clock;
}

/** By handle. */
export interface Findings {
  readonly needs: ReadonlyMap<string, Need>;
  readonly unfit: ReadonlyMap<string, Unfit>;
}

export interface ConsolidationLooks {
  look(): Findings;
  /** Of the last look; undefined: there was none. */
  findings(): Findings | undefined;
  forget(): void;
  /** `changed` hears of each filesystem of which something else is found than before. */
  onChange(changed: (handle: string) => void): void;
}

const NOTHING: Findings = { needs: new Map(), unfit: new Map() };

export function createConsolidationLooks(watching: ConsolidationWatching): ConsolidationLooks {
  const listeners: ((handle: string) => void)[] = [];
  let findings: Findings | undefined;

  const tellChanges = <T>(
    before: ReadonlyMap<string, T>,
    found: ReadonlyMap<string, T>,
    tell: (telling: ConsolidationTelling, handle: string, found: T) => void,
  ): void => {
    for (const handle of changedKeys(before, found)) {
      const now = found.get(handle);
      if (now !== undefined) tell(watching, handle, now);
      for (const changed of listeners) changed(handle);
    }
  };
  return {
    look: () => {
      const before = findings ?? NOTHING;
      const found = findingsOf(watching.pods.store.list(), watching.seen, watching.clock.nowMs());
      findings = found;
      tellChanges(before.needs, found.needs, tellNeed);
      tellChanges(before.unfit, found.unfit, tellUnfit);
      return found;
    },
    findings: () => findings,
    forget: () => {
      findings = undefined;
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

function findingsOf(pods: readonly Pod[], seen: ConsolidationWatching["seen"], nowMs: number): Findings {
  return {
    needs: decideNeeds({ ...seen, pods }, nowMs),
    unfit: decideUnfit(waitingForSlots(pods, nowMs), seen),
  };
}

function changedKeys<T>(before: ReadonlyMap<string, T>, found: ReadonlyMap<string, T>): string[] {
  const keys = [...new Set([...before.keys(), ...found.keys()])];
  return keys.filter((key) => !isDeepStrictEqual(before.get(key), found.get(key)));
}
