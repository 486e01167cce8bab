// Trims this node's mounted volumes when their layouts' schedule says so: at most one volume at a time, never while it is resized, and
// whatever resizes or unstages it goes first. The last trim's end stands in the node's record, so that a restart neither forgets
// nor repeats it.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { LastTrim } from "../../api/trim.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { parseDuration } from "../../units/duration.ts";
import { formatQuantity } from "../../units/quantity.ts";
import { nextTrim, type TrimFacts } from "../decide/decide-next-trim.ts";
import type { AgentMetrics } from "../metrics.ts";
import type { Storage } from "../storage/storage.ts";
import type { NodeRecords } from "../volumes/node-records.ts";
import { saveRecord } from "../volumes/save-record.ts";
import { mountedVolumeOf, type VolumeState, type VolumeStates } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";

export interface VolumeTrimmerParts {
  readonly nodeName: string;
  readonly states: VolumeStates;
  readonly layouts: Pick<ReadableStore<FilesystemLayout>, "get">;
  readonly storage: Pick<Storage, "trim">;
  readonly records: Pick<NodeRecords, "write">;
  readonly metrics: Pick<AgentMetrics, "trimEnded">;
  readonly clock: Clock;
  readonly log: Logger;
  /** There is something new to tell of the volume. */
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
  const { states, clock, log } = parts;
  const notBefore = new Map<string, number>();
  let looking: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;

  const lookOnce = async (): Promise<void> => {
    const nowMs = clock.nowMs();
    for (const handle of notBefore.keys()) if (!states.has(handle)) notBefore.delete(handle);
    await noteWanted(parts, nowMs);
    const handle = nextTrim(gather(parts, notBefore), nowMs);
    const state = handle === undefined ? undefined : states.get(handle);
    if (state === undefined) return;
    const end = await trimNow(parts, state);
    if (end === "GaveWay") notBefore.set(state.handle, clock.nowMs() + GAVE_WAY_RETRY_MS);
    else notBefore.delete(state.handle);
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
      for (const { trimming } of states.values()) trimming?.abort("the agent ends");
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
  for (const state of parts.states.values()) {
    const { lastTrim, trimWantedAt } = state.record;
    if (lastTrim !== undefined || trimWantedAt !== undefined || !mayTrim(state)) continue;
    if (wantedEveryMs(parts, state.handle) === undefined) continue;
    state.record = { ...state.record, trimWantedAt: new Date(nowMs).toISOString() };
    await save(parts, state);
  }
}

function gather(parts: VolumeTrimmerParts, notBefore: ReadonlyMap<string, number>): TrimFacts[] {
  return [...parts.states.values()].flatMap((state): TrimFacts[] => {
    const { handle, record } = state;
    const everyMs = wantedEveryMs(parts, handle);
    const since = record.lastTrim?.endedAt ?? record.trimWantedAt;
    if (everyMs === undefined || since === undefined || !mayTrim(state)) return [];
    const wasTrimmed = record.lastTrim !== undefined;
    return [{ handle, everyMs, sinceMs: Date.parse(since), wasTrimmed, notBeforeMs: notBefore.get(handle) ?? 0 }];
  });
}

/** Not while anything is done to it, or is about to be: what was interrupted is resumed first. */
function mayTrim({ mounted, closing, hung, running, record, recordProblem, removed }: VolumeState): boolean {
  const isUsable = mounted !== undefined && !closing && !hung && !removed && recordProblem === undefined;
  return isUsable && running === undefined && record.operation === undefined;
}

type TrimOutcome = "Trimmed" | "GaveWay" | "Failed";

/** From here to the begin nothing is awaited: what was gathered is still true. */
async function trimNow(parts: VolumeTrimmerParts, state: VolumeState): Promise<TrimOutcome> {
  const { storage, metrics, clock, log } = parts;
  if (state.mounted === undefined) return "GaveWay";
  const trimming = new AbortController();
  state.trimming = trimming;
  try {
    const trimmed = storage.trim(mountedVolumeOf(state.mounted, state.record), trimming.signal);
    const trimmedBytes = await withTimeLimit(trimmed, TRIM_LIMIT_MS, `trimming volume ${state.handle}`);
    if (trimmedBytes === undefined) {
      metrics.trimEnded("GaveWay", 0);
      log.info({ volume: state.handle }, "a trim gave way to another operation, and is tried again later");
      return "GaveWay";
    }
    await conclude(parts, state, { endedAt: endOf(clock), trimmed: formatQuantity(trimmedBytes) });
    metrics.trimEnded("Trimmed", trimmedBytes);
    log.info({ volume: state.handle, trimmedBytes }, "unused blocks went back by the policy's schedule");
    return "Trimmed";
  } catch (err) {
    await conclude(parts, state, { endedAt: endOf(clock), trimmed: "0", message: (err as Error).message });
    metrics.trimEnded("Failed", 0);
    log.warn({ volume: state.handle, err }, "trimming failed; it is tried again at its next time");
    return "Failed";
  } finally {
    state.trimming = undefined;
  }
}

function endOf(clock: Clock): string {
  return new Date(clock.nowMs()).toISOString();
}

async function conclude(parts: VolumeTrimmerParts, state: VolumeState, lastTrim: LastTrim): Promise<void> {
  state.record = { ...state.record, lastTrim };
  await save(parts, state);
  parts.changed(state.handle);
}

/** What cannot be written now is written with the volume's next turn, which says so. */
async function save({ records, log }: VolumeTrimmerParts, state: VolumeState): Promise<void> {
  await saveRecord(records, state, "ProcessDeath").catch((err: unknown) =>
    log.warn({ volume: state.handle, err }, "what a trim is counted from could not be recorded on the node"),
  );
}
