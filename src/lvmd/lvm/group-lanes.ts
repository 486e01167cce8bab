// One change at a time for each volume group, in the order in which they were asked for. A command that hangs stops its lane: nothing
// is begun behind it until it has ended, so that nothing piles up.
import { LvmError } from "./lvm-error.ts";

export interface GroupLanes {
  /** Throws LvmError Busy where too many wait, and Hung behind a command that was left behind. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Whether anything runs or waits in any lane. */
  isBusy(): boolean;
}

interface Lane {
  tail: Promise<unknown>;
  length: number;
  /** What was left behind and has not ended. */
  hung: string | undefined;
}

/** Of the calls that wait for the turn of one group. */
export const WAITING_LIMIT = 512;

export function createGroupLanes(): GroupLanes {
  const lanes = new Map<string, Lane>();
  const forget = (key: string, lane: Lane): void => {
    if (lane.length === 0 && lane.hung === undefined) lanes.delete(key);
  };
  const take = async <T>(key: string, lane: Lane, work: () => Promise<T>): Promise<T> => {
    if (lane.hung !== undefined)
      throw new LvmError("Hung", `nothing is done in ${key} before this has ended: ${lane.hung}`);
    try {
      return await work();
    } catch (error) {
      if (error instanceof LvmError && error.code === "TimedOut") {
        lane.hung = error.message;
        void error.gone.then(() => {
          lane.hung = undefined;
          forget(key, lane);
        });
      }
      throw error;
    }
  };
  return {
    isBusy: () => [...lanes.values()].some(({ length }) => length > 0),
    run: async (key, work) => {
      const lane = lanes.get(key) ?? { tail: Promise.resolve(), length: 0, hung: undefined };
      if (lane.length >= WAITING_LIMIT)
        throw new LvmError("Busy", `${WAITING_LIMIT} calls wait for their turn in ${key} already`);
      lanes.set(key, lane);
      lane.length += 1;
      const turn = lane.tail.then(() => take(key, lane, work));
      lane.tail = turn.catch(() => undefined);
      try {
        return await turn;
      } finally {
        lane.length -= 1;
        forget(key, lane);
      }
    },
  };
}
