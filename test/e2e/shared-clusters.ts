// Clusters that several suites share, one after the other: which suites, and what is in a cluster before the first of them. A suite that
// takes its cluster apart is in no list, and makes one of its own.
import { createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { kubeconfigConnection } from "../../src/platform/kube/client/kube-config.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import type { Cluster, ClusterSettings } from "../cluster/cluster-state.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { kubectlOf } from "./cluster-under-test.ts";
import { install, LVM_OVERLAY, loadImages, OVERLAY } from "./installed-tidemark.ts";
import { giveVolumeGroups } from "./lvm-in-cluster.ts";
import { createOwnCluster } from "./own-cluster.ts";
import { rememberState } from "./shared-state.ts";

export interface SharedCluster {
  /** In small letters. */
  readonly name: string;
  /** Paths, in the order in which they run. */
  readonly suites: readonly string[];
  readonly settings: Partial<ClusterSettings>;
  /** Where Tidemark is installed from. */
  readonly overlay: string;
  readonly volumeGroups: boolean;
}

/** kubelet looks at a pod's volumes again after this: no suite is about its minute. */
const SETTINGS = { syncFrequency: "10s" };

export const SHARED_CLUSTERS: readonly SharedCluster[] = [
  {
    name: "spans",
    suites: [
      "test/e2e/shared-state.test.ts",
      "test/e2e/member-driver.test.ts",
      "test/e2e/claim.test.ts",
      "test/e2e/span.test.ts",
      "test/e2e/span-spare.test.ts",
      "test/e2e/span-driver.test.ts",
      "test/e2e/consolidation.test.ts",
      "test/e2e/pod-webhook.test.ts",
    ],
    settings: SETTINGS,
    overlay: OVERLAY,
    volumeGroups: false,
  },
  {
    name: "lvm",
    suites: [
      "test/e2e/lvm.test.ts",
      "test/e2e/node-loss.test.ts",
      "test/e2e/snapshots.test.ts",
      "test/e2e/placement.test.ts",
      "test/e2e/network-policies.test.ts",
    ],
    settings: SETTINGS,
    overlay: LVM_OVERLAY,
    volumeGroups: true,
  },
];

/** Resolves when it is ready for its first suite, with KUBECONFIG set to its kubeconfig. A cluster that a dead process has left is removed. */
export async function createSharedCluster({ name, settings, overlay, volumeGroups }: SharedCluster): Promise<Cluster> {
  const cluster = await createOwnCluster(settings, name);
  const { kubeconfig } = cluster.places;
  const client = createKubeClient({ connection: await kubeconfigConnection(kubeconfig), effects: directEffects });
  const kubectl = kubectlOf(cluster.programs.kubectl, kubeconfig, "default");
  try {
    if (volumeGroups) await giveVolumeGroups(cluster);
    await loadImages({ cluster });
    await installMemberDriver({ cluster, kubectl });
    await install({ kubectl }, overlay);
    await rememberState(cluster, client, kubectl, overlay);
    return cluster;
  } finally {
    await client.close();
  }
}
