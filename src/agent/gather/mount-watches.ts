// Looks from time to time for what no event announces: a mounted filesystem that turns read-only, or writable again; a loop member whose
// file another process has made longer or shorter; and whether the data of a mounted span can be moved between its members, by which
// operator and engine go. It changes nothing; it has the volume checked.

import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { createTopmostMounts, kernelPathOf, type Mount, mountAt } from "../storage/filesystem/devices-and-mounts.ts";
import type { Members, MountedVolume, Resizing, Volume } from "../storage/storage.ts";
import { unlessHung } from "../storage/storage-error.ts";
import type { NodeRecord } from "../volumes/node-records.ts";
import type { NodeVolume, VolumesByHandle } from "../volumes/node-volume.ts";
import { mountedVolumeOf, type NodeVolumeState, type PresentMount, volumeOf } from "../volumes/volume-state.ts";

const LOOK_INTERVAL_MS = 2000;

export interface MountWatch {
  stop(): void;
}

export interface MountWatchParts {
  readonly volumes: VolumesByHandle;
  readonly storage: Pick<Resizing, "sizeBytes">;
  /** Has the volume reconciled. */
  readonly changed: (handle: string) => void;
  readonly log: Logger;
}

export function startMountWatch({ volumes, storage, changed, log }: MountWatchParts): MountWatch {
  // Resolved once a mount: a link that is changed above it moves no mount.
  const paths = new WeakMap<MountedVolume, string>();
  // Worked out once a record: a record that changes is another one.
  const known = new WeakMap<NodeRecord, Volume>();
  const sizeOf = async (record: NodeRecord): Promise<number | undefined> => {
    const volume = known.get(record) ?? volumeOf(record);
    known.set(record, volume);
    return storage.sizeBytes(volume);
  };
  const topmostMounts = createTopmostMounts();
  const look = async (): Promise<void> => {
    const mounts = topmostMounts();
    const mountOf = (mounted: MountedVolume): Mount | undefined => {
      const path = paths.get(mounted) ?? kernelPathOf(mounted.mountPath);
      if (path !== undefined) paths.set(mounted, path);
      return path === undefined ? undefined : mounts.get(path);
    };
    for (const volume of volumes.values())
      if (hasTurned(volume.state, mountOf) || (await hasOtherSize(sizeOf, volume))) changed(volume.handle);
  };
  let looking: Promise<void> | undefined;
  const timer = setInterval(() => {
    looking ??= look()
      .catch((err: unknown) => log.warn({ err }, "the mounts could not be read; trying again"))
      .finally(() => {
        looking = undefined;
      });
  }, LOOK_INTERVAL_MS).unref();
  return { stop: () => clearInterval(timer) };
}

/** Looks at the mount. */
export function noteReadOnly(volume: NodeVolume, nowMs: number): void {
  volume.dispatch(
    isReadOnly(volume.state.mounted?.volume) ? { type: "FoundReadOnly", nowMs } : { type: "FoundWritable" },
  );
}

/** By the kernel's table alone: what does not answer is not asked. */
export function isReadOnly(mounted: MountedVolume | undefined, mountOf = mountNow): boolean {
  return mounted !== undefined && "fsType" in mounted && mountOf(mounted)?.readOnly === true;
}

function mountNow({ mountPath }: MountedVolume): Mount | undefined {
  return mountAt(mountPath);
}

function hasTurned({ mounted, closing }: NodeVolumeState, mountOf: typeof mountNow): boolean {
  return !closing && isReadOnly(mounted?.volume, mountOf) !== (mounted?.readOnlySinceMs !== undefined);
}

/** Other members are not to be had without a command, or without lvmd. */
async function hasOtherSize(
  sizeOf: (record: NodeRecord) => Promise<number | undefined>,
  volume: NodeVolume,
): Promise<boolean> {
  const { record, mounted, closing } = volume.state;
  if (record.backend !== "loop" || mounted === undefined || closing) return false;
  const sizeBytes = await sizeOf(record);
  const { state } = volume;
  // Whatever changes its size at this moment says so at its end.
  return state.running === undefined && sizeBytes !== state.sizeBytes;
}

export interface MovingWatchParts {
  readonly volumes: VolumesByHandle;
  readonly storage: Pick<Members, "immovable">;
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
/** How often a volume whose data can be moved is checked. The removal itself finds a snapshot that is made between two checks. */
const MOVABLE_LOOK_MS = 300_000;
/** What does not, so that it is made smaller again soon after its last snapshot has gone. */
const IMMOVABLE_LOOK_MS = 60_000;
const LOOK_LIMIT_MS = 10_000;

export function createMovingWatch(parts: MovingWatchParts): MovingWatch {
  const { volumes, clock, log } = parts;
  const looked = new Map<string, { readonly volume: MountedVolume; readonly atMs: number }>();
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const isDue = (state: NodeVolumeState): boolean => {
    const { handle, record, mounted, closing, running } = state;
    if (record.backend !== "span" || mounted?.hung !== false || closing || running !== undefined) return false;
    const last = looked.get(handle);
    const everyMs = mounted.moving?.immovable === undefined ? MOVABLE_LOOK_MS : IMMOVABLE_LOOK_MS;
    return last?.volume !== mounted.volume || clock.monotonicMs() - last.atMs >= everyMs;
  };
  const lookOnce = async (): Promise<void> => {
    for (const handle of looked.keys()) if (!volumes.has(handle)) looked.delete(handle);
    for (const volume of [...volumes.values()]) {
      const { handle, mounted } = volume.state;
      if (mounted === undefined || !isDue(volume.state)) continue;
      looked.set(handle, { volume: mounted.volume, atMs: clock.monotonicMs() });
      await lookAtMoving(parts, volume, mounted);
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
async function lookAtMoving(
  { storage, log }: MovingWatchParts,
  volume: NodeVolume,
  mounted: PresentMount,
): Promise<void> {
  const { handle, record } = volume.state;
  try {
    const asked = storage.immovable(mountedVolumeOf(mounted, record));
    const immovable = await unlessHung(asked, LOOK_LIMIT_MS, `looking whether data of volume ${handle} can be moved`);
    // A shrink that ended during this look has the newer result.
    if (volume.state.mounted?.moving === mounted.moving)
      volume.dispatch({ type: "MovingChecked", volume: mounted.volume, immovable });
  } catch (err) {
    log.warn({ volume: handle, err }, "whether its data can be moved is checked later");
  }
}
