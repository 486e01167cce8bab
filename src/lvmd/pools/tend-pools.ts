// Looks at each class' thin pool in each report, and has what is wrong with it put right: once for as long as it is wrong where it does not
// zero, and once in all where it is not active, so that an administrator's own deactivation stays.
import { type ClassState, classState } from "../classes/class-state.ts";
import type { ReportedVolume } from "../lvm/report.ts";
import { impairment } from "../volumes/sizes.ts";
import { isUnusable, type VolumeHost } from "../volumes/volume-host.ts";
import { activatePool, isInactive, letPoolZero, zeroes } from "./ready-pool.ts";

export interface PoolTending {
  /** After each report, and each change of settings. What is to be done is in its group's queue when it returns. */
  look(): void;
}

export function createPoolTending(host: VolumeHost): PoolTending {
  const zeroing = new Set<string>();
  const activated = new Set<string>();
  const inTurn = (group: string, pool: string, work: () => Promise<void>): Promise<string | undefined> =>
    host.lanes.run(group, work).then(
      () => undefined,
      (err: unknown) => {
        host.log.error({ pool: `${group}/${pool}`, err }, "the thin pool could not be made ready");
        return err instanceof Error ? err.message : String(err);
      },
    );
  const activate = async (group: string, pool: ReportedVolume): Promise<void> => {
    const problem = await inTurn(group, pool.name, () => activatePool(host, group, pool));
    if (problem === undefined) return;
    host.poolProblems.set(`${group}/${pool.name}`, problem);
    host.reports.expectChange(); // who hears of classes hears why
  };
  const tend = ({ group, thin }: ClassState): void => {
    if (thin === undefined) return;
    const { pool } = thin;
    if (zeroes(pool)) zeroing.delete(pool.uuid);
    else if (!zeroing.has(pool.uuid)) {
      zeroing.add(pool.uuid);
      void inTurn(group.name, pool.name, () => letPoolZero(host, group.name, pool));
    }
    if (!isInactive(pool)) {
      activated.add(pool.uuid); // whoever did it: what becomes of it later is theirs
      host.poolProblems.delete(`${group.name}/${pool.name}`);
    } else if (!activated.has(pool.uuid)) {
      activated.add(pool.uuid);
      void activate(group.name, pool);
    }
  };
  return {
    look: () => {
      for (const deviceClass of host.settings().deviceClasses) {
        const state = classState(host.reports.latest(), deviceClass);
        if (!isUnusable(state) && impairment(state) === undefined) tend(state);
      }
    },
  };
}
