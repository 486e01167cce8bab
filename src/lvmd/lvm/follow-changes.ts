// Hears of what others do to LVM, so that nobody has to ask it over and over: LVM writes a group's metadata into its backup directory
// after a change; where that says nothing, the devices' own metadata headers do, and a thin pool fills by what its volumes write.
import { type FSWatcher, watch } from "node:fs";
import { open } from "node:fs/promises";
import type { Logger } from "../../process/log.ts";
import { type DiskFigures, figuresOf } from "../diskstats.ts";
import type { Report, ReportedGroup } from "./report.ts";
import type { ReportCache } from "./report-cache.ts";

export interface FollowParts {
  readonly reports: ReportCache;
  readonly backupDirectory: string;
  readonly figures: () => DiskFigures;
  readonly log: Logger;
}

/** Reads files of a few KiB; LVM is not asked. */
const LOOK_INTERVAL_MS = 5000;
const SLOW_INTERVAL_MS = 60_000;
/** A pool that has been written this much since the last report is looked at before the slow interval is over. */
const WRITTEN_RATIO = 0.01;
/** The label and the header of the metadata area, which names the place of the newest metadata. */
const HEADER_BYTES = 8192;

/** Ends with `stop`. */
export function followChanges(parts: FollowParts): { stop(): void } {
  const { reports, log } = parts;
  const backups = watchBackups(parts);
  const evidence = gatherEvidence(parts);
  let lookedMs = performance.now();
  let looking = false;
  const look = async (): Promise<void> => {
    const report = reports.latest();
    if (report === undefined || reports.problem() !== undefined) return reports.expectChange();
    const isSlow = performance.now() - lookedMs >= SLOW_INTERVAL_MS;
    if (isSlow) lookedMs = performance.now();
    if (await evidence.ofChange(report, isSlow)) reports.expectChange();
  };
  const timer = setInterval(() => {
    backups.follow();
    // A device that hangs keeps its look waiting: there is never a second one.
    if (looking) return;
    looking = true;
    look()
      .catch((err: unknown) => log.warn({ err }, "could not look for changes of LVM"))
      .finally(() => {
        looking = false;
      });
  }, LOOK_INTERVAL_MS);
  return {
    stop: () => {
      clearInterval(timer);
      backups.stop();
    },
  };
}

function watchBackups({ reports, backupDirectory }: FollowParts): { follow(): void; stop(): void } {
  let watcher: FSWatcher | undefined;
  const follow = (): void => {
    if (watcher !== undefined) return;
    try {
      watcher = watch(backupDirectory, () => reports.expectChange());
    } catch {
      return; // LVM makes the directory with its first backup: looked for again
    }
    watcher.once("error", () => {
      watcher?.close();
      watcher = undefined;
    });
    reports.expectChange(); // what has happened before is not told
  };
  follow();
  return { follow, stop: () => watcher?.close() };
}

/** What was there right before LVM was asked for the last report: what has changed since may not be in it. */
function gatherEvidence({ reports, figures }: FollowParts): {
  ofChange(report: Report, isSlow: boolean): Promise<boolean>;
} {
  let written: ReadonlyMap<string, number> = new Map();
  let headers: Promise<ReadonlyMap<string, string>> = Promise.resolve(new Map());
  const gather = (): void => {
    const report: Report = reports.latest() ?? new Map();
    written = writtenByPool(report, figures());
    headers = readHeaders(report);
  };
  gather();
  reports.onAsk(gather);
  return {
    ofChange: async (report, isSlow) => {
      if (hasWritten(report, written, writtenByPool(report, figures()), isSlow ? 0 : WRITTEN_RATIO)) return true;
      return isSlow && !sameHeaders(await headers, await readHeaders(report));
    },
  };
}

export function writtenByPool(report: Report, figures: DiskFigures): ReadonlyMap<string, number> {
  const written = new Map<string, number>();
  for (const group of report.values()) {
    for (const { pool, device } of group.volumes.values()) {
      if (pool === "") continue;
      const { writtenBytes = 0, discardedBytes = 0 } = figuresOf(figures, device) ?? {};
      const key = `${group.name}/${pool}`;
      written.set(key, (written.get(key) ?? 0) + writtenBytes + discardedBytes);
    }
  }
  return written;
}

/** Whether any pool was written more than this part of its size. */
export function hasWritten(
  report: Report,
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
  ratio: number,
): boolean {
  return [...now].some(([key, bytes]) => {
    const poolBytes = poolOf(report, key)?.sizeBytes ?? 0;
    return Math.abs(bytes - (before.get(key) ?? 0)) > poolBytes * ratio;
  });
}

function poolOf(report: Report, key: string): ReturnType<ReportedGroup["volumes"]["get"]> {
  const [group = "", pool = ""] = key.split("/");
  return report.get(group)?.volumes.get(pool);
}

async function readHeaders(report: Report): Promise<ReadonlyMap<string, string>> {
  const headers = new Map<string, string>();
  for (const { devices } of report.values())
    for (const { path } of devices) headers.set(path, await readHeader(path).catch(() => ""));
  return headers;
}

async function readHeader(path: string): Promise<string> {
  const device = await open(path, "r");
  try {
    const { buffer, bytesRead } = await device.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
    return buffer.toString("latin1", 0, bytesRead);
  } finally {
    await device.close();
  }
}

function sameHeaders(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): boolean {
  return before.size === now.size && [...now].every(([path, header]) => header !== "" && before.get(path) === header);
}
