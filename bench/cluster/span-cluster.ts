// The cluster that a benchmark runs on, as test/e2e makes it: the member driver and Tidemark installed, and a class of spans. With
// KUBECONFIG it is that cluster, and stays.
import { applyObject } from "../../test/e2e/apply-object.ts";
import { spanClass } from "../../test/e2e/claiming-pod.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { install, loadImages } from "../../test/e2e/installed-tidemark.ts";
import { installMemberDriver } from "../../test/member-driver/install.ts";
import type { Say } from "../benchmark.ts";

export const SPAN_CLASS = "bench-span";

/** What it has started is taken down in any case. */
export async function withSpanCluster<T>(say: Say, work: (tested: ClusterUnderTest) => Promise<T>): Promise<T> {
  const tested = await startClusterUnderTest();
  try {
    await installMemberDriver(tested);
    await loadImages(tested);
    await install(tested);
    await applyObject(tested, spanClass(SPAN_CLASS));
    say("the cluster is there, with the member driver and Tidemark on it");
    return await work(tested);
  } finally {
    await tested.close();
  }
}
