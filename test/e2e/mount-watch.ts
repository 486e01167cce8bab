// On which nodes of a cluster a volume's filesystem is mounted, over a time: seen from every node's mountinfo, not from what
// anybody says of it.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { fsidOf, volumeUIDOf } from "../../src/api/identity.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { onlyChild, runningProcess } from "../cluster/recorded-process.ts";

export interface MountSightings {
  /** The nodes that had it mounted, at the beginning and at each change since. */
  readonly changes: readonly (readonly string[])[];
  readonly samples: number;
  readonly longestGapMs: number;
}

export interface MountWatch {
  end(): Promise<MountSightings>;
}

/** Well under the 50 ms that a mount on two nodes may at most go unseen; the machine may add to it. */
const INTERVAL_MS = 10;

/** Resolves when it has looked once. */
export async function watchMounts({ places, nodes }: Cluster, handle: string): Promise<MountWatch> {
  const mountInfos: Record<string, string> = {};
  for (const node of nodes) {
    const holder = runningProcess(places, node);
    if (holder !== undefined) mountInfos[node] = `/proc/${await onlyChild(holder)}/mountinfo`;
  }
  const fsid = fsidOf(volumeUIDOf(handle) ?? "");
  const workerData = { mountInfos, fsid, handle, intervalMs: INTERVAL_MS };
  const worker = new Worker(new URL("./sample-mounts.mjs", import.meta.url), { workerData });
  await once(worker, "message");
  return {
    end: async () => {
      const told = once(worker, "message") as Promise<[MountSightings]>;
      worker.postMessage("end");
      return (await told)[0];
    },
  };
}
