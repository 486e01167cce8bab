// How full a thin pool may have become since LVM was asked, by what the kernel has counted on its volumes. Pure but for what it keeps.
import { type DiskFigures, figuresOf } from "../diskstats.ts";
import type { Report, ReportedVolume } from "../lvm/report.ts";

/** Of one pool: what was counted on each of its active volumes, by major:minor, since that was activated. */
type Counts = ReadonlyMap<string, Written>;

export interface Written {
  readonly requests: number;
  /** Discarded ones too: they change how full the pool is as well. */
  readonly bytes: number;
}

/** One look at the counters of all pools. */
export interface Look {
  /** Of a clock that only goes forward. */
  readonly atMs: number;
  readonly pools: ReadonlyMap<string, Counts>;
}

export interface PoolWrites {
  /** LVM is asked right now. */
  asked(look: Look): void;
  /** Whether LVM would now tell something else that matters; `everything`: that may matter. */
  isDue(report: Report, look: Look, everything: boolean): boolean;
}

/**
 * dm-thin counts a chunk as taken once its metadata is committed, each second (COMMIT_PERIOD in drivers/md/dm-thin.c): what was written this
 * long before LVM was asked may not be in its answer.
 */
const COMMITTED_MS = 2000;
/** Of what is free: a pool is heard of long before it is full. */
const FREE_RATIO = 1 / 16;
/** Of the pool: what is told in whole percents changes by less than that unheard, and one that is full is not asked about all the time. */
const [LEAST_RATIO, MOST_RATIO] = [1 / 1000, 1 / 100];
/** Of a pool's metadata for each chunk; thin_metadata_size(8) reckons with as much. */
const METADATA_BYTES_PER_CHUNK = 64;

export function lookAtPools(report: Report, figures: DiskFigures, atMs: number): Look {
  const pools = new Map<string, Map<string, Written>>();
  for (const group of report.values()) {
    for (const { pool, device } of group.volumes.values()) {
      const found = pool === "" ? undefined : figuresOf(figures, device);
      if (found === undefined || device === undefined) continue;
      const key = `${group.name}/${pool}`;
      const counts = pools.get(key) ?? new Map<string, Written>();
      counts.set(`${device.major}:${device.minor}`, {
        requests: found.writes,
        bytes: found.writtenBytes + found.discardedBytes,
      });
      pools.set(key, counts);
    }
  }
  return { atMs, pools };
}

export function createPoolWrites(): PoolWrites {
  /** The newest one that is older than COMMITTED_MS, and all since. */
  let looks: Look[] = [];
  /** When LVM was asked last, and what its answer holds in any case; before the first time it holds nothing. */
  let asked: Look | undefined;
  let committed: Look | undefined;
  const keep = (look: Look): void => {
    looks.push(look);
    const newestOld = looks.findLastIndex(({ atMs }) => atMs <= look.atMs - COMMITTED_MS);
    if (newestOld > 0) looks = looks.slice(newestOld);
  };
  return {
    asked: (look) => {
      keep(look);
      asked = look;
      committed = looks.findLast(({ atMs }) => atMs <= look.atMs - COMMITTED_MS) ?? committed;
    },
    isDue: (report, look, everything) => {
      keep(look);
      const since = asked !== undefined && look.atMs - asked.atMs < COMMITTED_MS ? asked : committed;
      return [...look.pools].some(([key, counts]) => {
        const pool = poolOf(report, key);
        const written = writtenSince(since?.pools.get(key), counts);
        return pool !== undefined && (everything ? written.bytes > 0 : mayMatter(pool, written));
      });
    },
  };
}

function poolOf(report: Report, key: string): ReportedVolume | undefined {
  const [group = "", pool = ""] = key.split("/");
  return report.get(group)?.volumes.get(pool);
}

/** A volume that is new, or that was activated anew, has written all that is counted on it since. */
export function writtenSince(before: Counts | undefined, now: Counts): Written {
  let [requests, bytes] = [0, 0];
  for (const [device, counted] of now) {
    const earlier = before?.get(device);
    const isSame = earlier !== undefined && earlier.requests <= counted.requests && earlier.bytes <= counted.bytes;
    requests += counted.requests - (isSame ? earlier.requests : 0);
    bytes += counted.bytes - (isSame ? earlier.bytes : 0);
  }
  return { requests, bytes };
}

/** At worst each request has taken a chunk for itself besides those that it fills. */
export function mayMatter(pool: ReportedVolume, { requests, bytes }: Written): boolean {
  const { sizeBytes, dataPercent, metadataSizeBytes, metadataPercent, chunkBytes } = pool;
  const takenBytes = bytes + requests * chunkBytes;
  if (takenBytes === 0) return false;
  const chunks = chunkBytes === 0 ? 0 : takenBytes / chunkBytes;
  return (
    takenBytes >= enoughBytes(sizeBytes, dataPercent) ||
    chunks * METADATA_BYTES_PER_CHUNK >= enoughBytes(metadataSizeBytes, metadataPercent)
  );
}

function enoughBytes(sizeBytes: number, usedPercent: number): number {
  const freeBytes = sizeBytes * (1 - usedPercent / 100);
  return Math.min(Math.max(freeBytes * FREE_RATIO, sizeBytes * LEAST_RATIO), sizeBytes * MOST_RATIO);
}
