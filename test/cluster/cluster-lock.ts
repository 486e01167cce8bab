// One command at a time makes or removes the cluster of a directory. Who holds the lock stands in it, so that a dead holder's is
// taken over.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { identityOf, isAlive } from "../../src/demo/process-table.ts";
import type { ClusterPlaces } from "./places.ts";

/** Rejects when another process that lives holds it. */
export async function withClusterLock<T>({ directory }: ClusterPlaces, work: () => Promise<T>): Promise<T> {
  const path = `${directory}.lock`;
  mkdirSync(dirname(path), { recursive: true });
  takeLock(path);
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

function takeLock(path: string): void {
  const own = identityOf(process.pid);
  try {
    writeFileSync(path, `${process.pid} ${own?.startTicks ?? 0}\n`, { flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const [pid = 0, startTicks = 0] = readFileSync(path, "utf8").split(" ").map(Number);
    if (isAlive({ pid, startTicks })) throw new Error(`process ${pid} is making or removing this cluster: ${path}`);
    rmSync(path, { force: true });
    takeLock(path);
  }
}
