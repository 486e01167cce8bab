// One thing at a time per volume for what changes whether it is mounted: stage, publish, unstage, adopt, remove. Different
// volumes never wait for each other. The length of a lane is limited, since a hung volume's callers keep coming back.

/** A lane that is full: somebody has been waiting for the same volume for long. */
export class LaneFullError extends Error {
  override name = "LaneFullError";
}

export interface VolumeLanes {
  /** Runs after what was given before for this volume. Throws LaneFullError. */
  run<T>(handle: string, work: () => Promise<T>): Promise<T>;
  /** Whether what is run now would have to wait. */
  isBusy(handle: string): boolean;
}

const WAITING_LIMIT = 8;

export function createVolumeLanes(): VolumeLanes {
  const lanes = new Map<string, { tail: Promise<unknown>; length: number }>();
  return {
    isBusy: (handle) => lanes.has(handle),
    run: async (handle, work) => {
      const lane = lanes.get(handle) ?? { tail: Promise.resolve(), length: 0 };
      if (lane.length >= WAITING_LIMIT)
        throw new LaneFullError(`${WAITING_LIMIT} calls for volume ${handle} are waiting already; see the agent's log`);
      lanes.set(handle, lane);
      lane.length += 1;
      const turn = lane.tail.then(work);
      lane.tail = turn.catch(() => undefined);
      try {
        return await turn;
      } finally {
        lane.length -= 1;
        if (lane.length === 0) lanes.delete(handle);
      }
    },
  };
}
