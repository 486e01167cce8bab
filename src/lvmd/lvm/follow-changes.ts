// Notices what other programs do to LVM without polling LVM itself. LVM writes a group's metadata into its backup directory after a change;
// where that shows nothing, the devices' own metadata headers do.
import { type FSWatcher, watch } from "node:fs";
import { open } from "node:fs/promises";
import type { Logger } from "../../platform/process/log.ts";
import type { Report } from "./report.ts";
import type { ReportCache } from "./report-cache.ts";

export interface FollowParts {
  readonly reports: ReportCache;
  readonly backupDirectory: string;
  readonly log: Logger;
}

const LOOK_INTERVAL_MS = 5000;
/** Reads files of a few KiB; LVM is not asked. */
const SLOW_INTERVAL_MS = 60_000;
/** The label and the header of the metadata area, which names the place of the newest metadata. */
const HEADER_BYTES = 8192;

/** Ends with `stop`. */
export function followChanges(parts: FollowParts): { stop(): void } {
  const { reports, log } = parts;
  const backups = watchBackups(parts);
  const headers = followHeaders(reports);
  let lookedMs = performance.now();
  let looking = false;
  const look = async (): Promise<void> => {
    const report = reports.latest();
    if (report === undefined || reports.problem() !== undefined) return reports.expectChange();
    if (performance.now() - lookedMs < SLOW_INTERVAL_MS) return;
    lookedMs = performance.now();
    if (await headers.haveChanged(report)) reports.expectChange();
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
    reports.expectChange(); // earlier changes are not reported
  };
  follow();
  return { follow, stop: () => watcher?.close() };
}

/** What was there right before LVM was asked for the last report: what has changed since may not be in it. */
function followHeaders(reports: ReportCache): { haveChanged(report: Report): Promise<boolean> } {
  let headers: Promise<ReadonlyMap<string, string>>;
  const read = (): void => {
    headers = readHeaders(reports.latest() ?? new Map());
  };
  read();
  reports.onAsk(read);
  return { haveChanged: async (report) => !sameHeaders(await headers, await readHeaders(report)) };
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
