// One command at a time makes or removes the cluster of a directory.
import type { ClusterPlaces } from "./places.ts";
import { withProcessLock } from "./process-lock.ts";

/** Rejects when another process that lives holds it. */
export async function withClusterLock<T>({ directory }: ClusterPlaces, work: () => Promise<T>): Promise<T> {
  const path = `${directory}.lock`;
  const held = (pid: number): Error => new Error(`process ${pid} is making or removing this cluster: ${path}`);
  return withProcessLock(path, held, work);
}
