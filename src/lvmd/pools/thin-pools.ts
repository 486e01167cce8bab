// Thin pools. Those that fill are noticed: LVM's metadata do not change when their volumes are written, so the kernel's counters are read,
// and LVM is asked again once enough was written; a pool without writes costs nothing. Each class' pool is checked in each report, and
// repaired: one that does not zero each time it stops zeroing, one that is not active only once, so that an administrator's own
// deactivation stays.
import type { Logger } from "../../platform/process/log.ts";
import { type ClassState, classState } from "../classes/class-state.ts";
import { type DiskFigures, figuresOf } from "../devices.ts";
import { activationArguments } from "../lvm/lvm.ts";
import { isInactive, type Report, type ReportedVolume, zeroes } from "../lvm/report.ts";
import type { ReportCache } from "../lvm/report-cache.ts";
import { impairment } from "../volumes/sizes.ts";
import { isUnusable, type VolumeHost } from "../volumes/volume-host.ts";

interface FollowPoolsParts {
  readonly reports: ReportCache;
  readonly figures: () => DiskFigures;
  readonly log: Logger;
}

/** Reads one file of the kernel's memory. */
const LOOK_INTERVAL_MS = 500;
/** Then little counts as well. */
const SLOW_INTERVAL_MS = 60_000;

/** Ends with `stop`. */
export function followPools({ reports, figures, log }: FollowPoolsParts): { stop(): void } {
  const writes = createPoolWrites();
  const lookNow = (report: Report): Look => lookAtPools(report, figures(), performance.now());
  const asked = (): void => writes.asked(lookNow(reports.latest() ?? new Map()));
  asked(); // for the report that is there already
  reports.onAsk(asked);
  let slowMs = performance.now();
  const look = (): void => {
    const report = reports.latest();
    // Without one, or after a failure, it is asked again anyway.
    if (report === undefined || reports.problem() !== undefined || !hasPools(report)) return;
    const isSlow = performance.now() - slowMs >= SLOW_INTERVAL_MS;
    if (isSlow) slowMs = performance.now();
    if (writes.isDue(report, lookNow(report), isSlow)) reports.expectChange();
  };
  const timer = setInterval(() => {
    try {
      look();
    } catch (err) {
      log.warn({ err }, "could not look at what thin pools' volumes have written");
    }
  }, LOOK_INTERVAL_MS);
  return { stop: () => clearInterval(timer) };
}

function hasPools(report: Report): boolean {
  for (const { volumes } of report.values()) for (const { pool } of volumes.values()) if (pool !== "") return true;
  return false;
}

// How full a thin pool may have become since LVM was asked, by what the kernel has counted on its volumes. Pure but for what it keeps.

/** Of one pool: what was counted on each of its active volumes, by major:minor, since that was activated. */
type Counts = ReadonlyMap<string, Written>;

interface Written {
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

interface PoolWrites {
  /** LVM is asked right now. */
  asked(look: Look): void;
  /** Whether LVM would now report something else that matters; `everything`: that may matter. */
  isDue(report: Report, look: Look, everything: boolean): boolean;
}

/**
 * dm-thin counts a chunk as taken once its metadata is committed, each second (COMMIT_PERIOD in drivers/md/dm-thin.c): what was written this
 * long before LVM was asked may not be in its answer.
 */
const COMMITTED_MS = 2000;
/** Of what is free: a pool is heard of long before it is full. */
const FREE_RATIO = 1 / 16;
/** Of the pool: below the least, figures in whole percents do not change; the most bounds how often a full one is asked about. */
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

/** A volume that is new, or that was activated again, has written all that is counted on it since. */
function writtenSince(before: Counts | undefined, now: Counts): Written {
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
function mayMatter(pool: ReportedVolume, { requests, bytes }: Written): boolean {
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

interface PoolReconciler {
  /** After each report, and each change of settings. What is to be done is in its group's queue when it returns. */
  look(): void;
}

export function createPoolReconciler(host: VolumeHost): PoolReconciler {
  const zeroing = new Set<string>();
  const activated = new Set<string>();
  const inTurn = (group: string, pool: string, work: () => Promise<void>): Promise<string | undefined> =>
    host.queues.run(group, work).then(
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
  const reconcile = ({ group, thin }: ClassState): void => {
    if (thin === undefined) return;
    const { pool } = thin;
    if (zeroes(pool)) zeroing.delete(pool.uuid);
    else if (!zeroing.has(pool.uuid)) {
      zeroing.add(pool.uuid);
      void inTurn(group.name, pool.name, () => letPoolZero(host, group.name, pool));
    }
    if (!isInactive(pool)) {
      activated.add(pool.uuid); // by lvmd or by an administrator: what becomes of it later is theirs
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
        if (!isUnusable(state) && impairment(state) === undefined) reconcile(state);
      }
    },
  };
}

// Repairs a thin pool for its volumes. One that does not zero what it hands out shows a tenant's data to the next one; one that is not
// active does not report what it has left.

/**
 * In the group's turn. Whatever the pool was made with (lvmthin(7), "--zero"), from now on it zeroes; no volume is made in it, or given back
 * to it, before. Throws LvmError.
 */
export async function letPoolZero(host: VolumeHost, group: string, pool: ReportedVolume | undefined): Promise<void> {
  if (pool === undefined || zeroes(pool)) return;
  // It may have been done since the report: LVM fails where there is nothing to change.
  const now = await poolNow(host, group, pool.name);
  if (now === undefined || zeroes(now)) return;
  host.log.warn({ pool: `${group}/${pool.name}` }, "the thin pool did not zero what it hands out: it does from now on");
  await host.lvm.run("lvmd-pool/zero", "lvchange", ["-Z", "y", `${group}/${pool.name}`]);
  host.reports.expectChange();
}

/** In the group's turn; one that is active stays as it is. Throws LvmError. */
async function activatePool(host: VolumeHost, group: string, pool: ReportedVolume): Promise<void> {
  const now = await poolNow(host, group, pool.name);
  if (now === undefined || !isInactive(now)) return;
  host.log.warn({ pool: `${group}/${pool.name}` }, "the thin pool was not active: it is activated");
  await host.lvm.run("lvmd-pool/activate", "lvchange", activationArguments(group, pool.name));
  host.reports.expectChange(); // LVM writes no metadata for it, so no change is seen
}

async function poolNow({ reports }: VolumeHost, group: string, name: string): Promise<ReportedVolume | undefined> {
  return (await reports.fresh()).get(group)?.volumes.get(name);
}
