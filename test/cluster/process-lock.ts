// A file that one living process at a time holds. Who holds it stands in it, so that a dead holder's is taken over.
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { identityOf, isAlive } from "../../demo/show/run/process-table.ts";

const LOOK_INTERVAL_MS = 100;

/** Rejects when another process that lives holds it: `held` says so with the path and that process. */
export async function withProcessLock<T>(
  path: string,
  held: (pid: number) => Error,
  work: () => Promise<T>,
): Promise<T> {
  const holder = takeLock(path);
  if (holder !== undefined) throw held(holder);
  return holding(path, work);
}

/** Waits for as long as another process that lives holds it. */
export async function afterProcessLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  while (takeLock(path) !== undefined) await sleep(LOOK_INTERVAL_MS);
  return holding(path, work);
}

async function holding<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

/** The pid of who holds it; undefined when it is ours now. */
function takeLock(path: string): number | undefined {
  mkdirSync(dirname(path), { recursive: true });
  if (linkOwn(path)) return undefined;
  const [pid = 0, startTicks = 0] = readHolder(path).split(" ").map(Number);
  if (isAlive({ pid, startTicks })) return pid;
  rmSync(path, { force: true });
  return takeLock(path);
}

/** Nobody ever sees the lock without its holder in it. */
function linkOwn(path: string): boolean {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, `${process.pid} ${identityOf(process.pid)?.startTicks ?? 0}\n`);
  try {
    linkSync(own, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(own, { force: true });
  }
}

/** Empty when it was released in this moment. */
function readHolder(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return "";
  }
}
