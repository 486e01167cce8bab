// The suites of one shared cluster as one job: the cluster is made for the first of them, and anew after one that has failed, so that no suite
// fails by what another one has left.
import { removeCluster } from "../cluster/cluster.ts";
import type { Cluster } from "../cluster/cluster-state.ts";
import { createSharedCluster, type SharedCluster } from "../e2e/shared-clusters.ts";

/** Runs a suite with this environment. True: all is well. */
type RunSuite = (suite: string, environment: Readonly<Record<string, string>>) => Promise<boolean>;

/** Rejects when the cluster cannot be made. Nothing of it is left. No suite is begun once `isEnding`. */
export async function runOnSharedCluster(
  shared: SharedCluster,
  runSuite: RunSuite,
  isEnding: () => boolean,
): Promise<void> {
  let cluster: Cluster | undefined;
  try {
    for (const suite of shared.suites) {
      if (isEnding()) return;
      cluster ??= await createSharedCluster(shared);
      if (await runSuite(suite, { KUBECONFIG: cluster.places.kubeconfig })) continue;
      await removeCluster(cluster.places);
      cluster = undefined;
    }
  } finally {
    if (cluster !== undefined) await removeCluster(cluster.places);
  }
}
