// On which nodes of a cluster volumes' filesystems are mounted, over a time: seen from every node's mountinfo, not from what
// anybody says of it. A node that loses its power and comes back meanwhile is looked at in its new life, too.
import { once } from "node:events";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { fsidOf, volumeUIDOf } from "../../src/contracts/identity.ts";
import type { Cluster } from "../cluster/cluster-state.ts";

export interface MountSightings {
  /** The nodes that had it mounted, at the beginning and at each change since. */
  readonly changes: readonly (readonly string[])[];
  /** Of each of them, when those before it were last seen, as a Unix time: they held until then at least. */
  readonly heldUntilMs: readonly number[];
  readonly samples: number;
  readonly longestGapMs: number;
}

export interface MountWatch<Sightings = MountSightings> {
  end(): Promise<Sightings>;
}

/** Well under the 50 ms that a mount on two nodes may at most go unseen; the machine may add to it. */
const INTERVAL_MS = 10;

/** Resolves when it has looked once. */
export async function watchMounts(cluster: Cluster, handle: string): Promise<MountWatch> {
  const watch = await watchMountsOf(cluster, [handle]);
  return {
    end: async () => {
      const [sightings] = Object.values(await watch.end());
      if (sightings === undefined) throw new Error(`nobody looked at ${handle}`);
      return sightings;
    },
  };
}

/** The same of several volumes at once, by their handles. */
export async function watchMountsOf(
  { places, nodes }: Cluster,
  handles: readonly string[],
): Promise<MountWatch<Record<string, MountSightings>>> {
  const holders = Object.fromEntries(nodes.map((node) => [node, join(places.processes, node)]));
  const fsids = Object.fromEntries(handles.map((handle) => [handle, fsidOf(volumeUIDOf(handle) ?? "")]));
  const workerData = { holders, fsids, intervalMs: INTERVAL_MS };
  const worker = new Worker(new URL("./sample-mounts.mjs", import.meta.url), { workerData });
  await once(worker, "message");
  worker.unref(); // a test that fails before its end leaves nobody waiting
  return {
    end: async () => {
      worker.ref();
      const told = once(worker, "message") as Promise<[Record<string, MountSightings>]>;
      worker.postMessage("end");
      return (await told)[0];
    },
  };
}
