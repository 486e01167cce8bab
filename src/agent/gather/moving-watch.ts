// Looks from time to time whether the data of this node's mounted spans can be moved between their members: their users make snapshots and
// delete them at any time. Operator and engine go by it, so that nothing is begun which the removal would refuse. How much each member holds
// is looked at with it. It reads only.
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { MountedVolume, Storage } from "../storage/storage.ts";
import { mountedVolumeOf, type VolumeState, type VolumeStates } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";

export interface MovingWatchParts {
  readonly states: VolumeStates;
  readonly storage: Pick<Storage, "immovable">;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly log: Logger;
  /** There may be something new to say of the volume, of what its members hold for one: it is to be measured. */
  readonly changed: (handle: string) => void;
}

export interface MovingWatch {
  /** Looks once at each volume that is due, one after the other. */
  look(): Promise<void>;
  start(): void;
  /** Begins no further look; one that runs ends within its limit, and changes nothing. */
  stop(): Promise<void>;
}

const TICK_MS = 5000;
/** What moves now: a snapshot that is made meanwhile is met by the removal itself. */
const MOVABLE_LOOK_MS = 300_000;
/** What does not, so that it is made smaller again soon after its last snapshot has gone. */
const IMMOVABLE_LOOK_MS = 60_000;
const LOOK_LIMIT_MS = 10_000;

export function createMovingWatch(parts: MovingWatchParts): MovingWatch {
  const { states, clock, log } = parts;
  const looked = new Map<string, { readonly mounted: MountedVolume; readonly atMs: number }>();
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const isDue = (state: VolumeState): boolean => {
    const { handle, record, mounted, closing, hung, running } = state;
    if (record.backend !== "span" || mounted === undefined || closing || hung || running !== undefined) return false;
    const last = looked.get(handle);
    const everyMs = state.moving?.immovable === undefined ? MOVABLE_LOOK_MS : IMMOVABLE_LOOK_MS;
    return last?.mounted !== mounted || clock.monotonicMs() - last.atMs >= everyMs;
  };
  const lookOnce = async (): Promise<void> => {
    for (const handle of looked.keys()) if (!states.has(handle)) looked.delete(handle);
    for (const state of [...states.values()]) {
      const { handle, mounted } = state;
      if (mounted === undefined || !isDue(state)) continue;
      looked.set(handle, { mounted, atMs: clock.monotonicMs() });
      await lookAtMoving(parts, state);
      parts.changed(handle);
    }
  };
  const look = (): Promise<void> => {
    looking ??= lookOnce().finally(() => {
      looking = undefined;
    });
    return looking;
  };
  return {
    look,
    start: () => {
      timer = setInterval(() => {
        look().catch((err: unknown) => log.error({ err }, "looking whether data can be moved failed"));
      }, TICK_MS).unref();
    },
    stop: async () => clearInterval(timer),
  };
}

/** Where that cannot be found out, what was known stands. */
async function lookAtMoving({ storage, log }: MovingWatchParts, state: VolumeState): Promise<void> {
  const { handle, mounted, record, moving: before } = state;
  if (mounted === undefined) return;
  try {
    const asked = storage.immovable(mountedVolumeOf(mounted, record));
    const immovable = await withTimeLimit(
      asked,
      LOOK_LIMIT_MS,
      `looking whether data of volume ${handle} can be moved`,
    );
    // A shrink that ended meanwhile has looked later.
    if (state.mounted === mounted && state.moving === before) state.moving = { mounted, immovable };
  } catch (err) {
    log.warn({ volume: handle, err }, "whether its data can be moved is looked at later");
  }
}
