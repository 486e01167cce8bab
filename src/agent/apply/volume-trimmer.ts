// Trims this node's mounted volumes when their layouts' schedule says so: at most one volume at a time, never while it is resized, and
// whatever resizes or unstages it goes first. The last trim's end stands in the node's record, so that a restart neither forgets
// nor repeats it.
import type { FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { LastTrim } from "../../contracts/kinds/trim.ts";
import { parseDuration } from "../../contracts/quantities/duration.ts";
import { formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import { decideNextTrim, type TrimFacts } from "../decide/decide-next-trim.ts";
import type { Trimming } from "../storage/storage.ts";
import { unlessHung } from "../storage/storage-error.ts";
import type { NodeRecords } from "../volumes/node-records.ts";
import { type NodeVolume, saveRecord, type VolumesByHandle } from "../volumes/node-volume.ts";
import { mountedVolumeOf, type NodeVolumeState } from "../volumes/volume-state.ts";

export interface VolumeTrimmerParts {
  readonly nodeName: string;
  readonly volumes: VolumesByHandle;
  readonly layouts: Pick<ReadableStore<FilesystemLayout>, "get">;
  readonly storage: Trimming;
  readonly records: Pick<NodeRecords, "write">;
  readonly metrics: { trimEnded(outcome: TrimOutcome, trimmedBytes: number): void };
  readonly clock: Clock;
  readonly log: Logger;
  /** The volume has something new to report. */
  readonly changed: (handle: string) => void;
}

export interface VolumeTrimmer {
  /** Looks once: notes whose trims are wanted from now on, and trims the one volume that is due the longest, if any is. */
  look(): Promise<void>;
  start(): void;
  /** Begins nothing more; a trim that runs is ended where it is. */
  stop(): Promise<void>;
}

/** Also what lies between two trims of a node that has fallen behind. */
const LOOK_INTERVAL_MS = 2000;
const TRIM_LIMIT_MS = 330_000;
/** A volume that is resized again and again keeps others from their turn no longer than this. */
const GAVE_WAY_RETRY_MS = 600_000;

export function createVolumeTrimmer(parts: VolumeTrimmerParts): VolumeTrimmer {
  const { volumes, clock, log } = parts;
  const notBefore = new Map<string, number>();
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const lookOnce = async (): Promise<void> => {
    const nowMs = clock.nowMs();
    for (const handle of notBefore.keys()) if (!volumes.has(handle)) notBefore.delete(handle);
    await noteWanted(parts, nowMs);
    const handle = decideNextTrim(gather(parts, notBefore), nowMs);
    const volume = handle === undefined ? undefined : volumes.get(handle);
    if (volume === undefined) return;
    const end = await trimNow(parts, volume);
    if (end === "GaveWay") notBefore.set(volume.handle, clock.nowMs() + GAVE_WAY_RETRY_MS);
    else notBefore.delete(volume.handle);
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
        look().catch((err: unknown) => log.error({ err }, "looking for volumes to trim failed"));
      }, LOOK_INTERVAL_MS).unref();
    },
    stop: async () => {
      clearInterval(timer);
      for (const volume of volumes.values()) volume.cancel({ because: "TrimmerStops" });
    },
  };
}

/** Milliseconds; undefined: no trims are wanted, or none that can be read. */
function wantedEveryMs({ layouts, nodeName }: VolumeTrimmerParts, handle: string): number | undefined {
  const { spec } = layouts.get(handle) ?? {};
  if (spec?.trim === undefined || spec.nodeName !== nodeName) return undefined;
  try {
    return parseDuration(spec.trim.every);
  } catch {
    return undefined;
  }
}

/** A first trim is counted from here, also by an agent that is started again before it is due. */
async function noteWanted(parts: VolumeTrimmerParts, nowMs: number): Promise<void> {
  for (const volume of parts.volumes.values()) {
    const { lastTrim, trimWantedAt } = volume.state.record;
    if (lastTrim !== undefined || trimWantedAt !== undefined || !mayTrim(volume.state)) continue;
    if (wantedEveryMs(parts, volume.handle) === undefined) continue;
    volume.dispatch({ type: "TrimWanted", at: new Date(nowMs).toISOString() });
    await save(parts, volume);
  }
}

function gather(parts: VolumeTrimmerParts, notBefore: ReadonlyMap<string, number>): TrimFacts[] {
  return [...parts.volumes.values()].flatMap(({ state }): TrimFacts[] => {
    const { handle, record } = state;
    const everyMs = wantedEveryMs(parts, handle);
    const since = record.lastTrim?.endedAt ?? record.trimWantedAt;
    if (everyMs === undefined || since === undefined || !mayTrim(state)) return [];
    const wasTrimmed = record.lastTrim !== undefined;
    return [{ handle, everyMs, sinceMs: Date.parse(since), wasTrimmed, notBeforeMs: notBefore.get(handle) ?? 0 }];
  });
}

/** Not while anything is done to it, or is about to be: what was interrupted is resumed first. */
function mayTrim({ mounted, closing, running, record, recordProblem }: NodeVolumeState): boolean {
  const isUsable = mounted?.hung === false && !closing && recordProblem === undefined;
  return isUsable && running === undefined && record.operation === undefined;
}

type TrimOutcome = "Trimmed" | "GaveWay" | "Failed";

/** From here to the begin nothing is awaited: what was gathered is still true. */
async function trimNow(parts: VolumeTrimmerParts, volume: NodeVolume): Promise<TrimOutcome> {
  const { storage, metrics, clock, log } = parts;
  const { handle, state } = volume;
  if (state.mounted === undefined) return "GaveWay";
  volume.dispatch({ type: "TrimStarted" });
  try {
    const trimmed = storage.trim(mountedVolumeOf(state.mounted, state.record), volume.signalOf("trim"));
    const trimmedBytes = await unlessHung(trimmed, TRIM_LIMIT_MS, `trimming volume ${handle}`);
    if (trimmedBytes === undefined) {
      metrics.trimEnded("GaveWay", 0);
      log.info({ volume: handle }, "a trim gave way to another operation, and is tried again later");
      return "GaveWay";
    }
    await conclude(parts, volume, { endedAt: endOf(clock), trimmed: formatQuantity(trimmedBytes) });
    metrics.trimEnded("Trimmed", trimmedBytes);
    log.info({ volume: handle, trimmedBytes }, "unused blocks went back by the policy's schedule");
    return "Trimmed";
  } catch (err) {
    await conclude(parts, volume, { endedAt: endOf(clock), trimmed: "0", message: (err as Error).message });
    metrics.trimEnded("Failed", 0);
    log.warn({ volume: handle, err }, "trimming failed; it is tried again at its next time");
    return "Failed";
  } finally {
    volume.dispatch({ type: "TrimEnded" });
  }
}

function endOf(clock: Clock): string {
  return new Date(clock.nowMs()).toISOString();
}

async function conclude(parts: VolumeTrimmerParts, volume: NodeVolume, lastTrim: LastTrim): Promise<void> {
  volume.dispatch({ type: "TrimConcluded", lastTrim });
  await save(parts, volume);
  parts.changed(volume.handle);
}

/** What cannot be written now is written with the volume's next turn, which says so. */
async function save({ records, log }: VolumeTrimmerParts, volume: NodeVolume): Promise<void> {
  await saveRecord(records, volume, "ProcessDeath").catch((err: unknown) =>
    log.warn({ volume: volume.handle, err }, "what a trim is counted from could not be recorded on the node"),
  );
}
