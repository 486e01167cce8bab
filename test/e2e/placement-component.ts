// The component placement in a cluster: what it is installed from, and what is done to its extenders.
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { install, loadScheduler, PLACEMENT_OVERLAY, podNames, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { until } from "./placed-pods.ts";

const EXTENDERS = "app.kubernetes.io/component=extender";
const REPLICAS = 2;

/** Resolves when all of it is ready. */
export async function installPlacement(tested: ClusterUnderTest): Promise<void> {
  await loadScheduler(tested);
  await install(tested, PLACEMENT_OVERLAY);
  for (const deployment of ["extender", "scheduler"]) await rolledOut(tested, deployment);
}

export async function rolledOut({ kubectl }: ClusterUnderTest, deployment: string): Promise<void> {
  await kubectl("-n", SYSTEM_NAMESPACE, "rollout", "status", `deployment/${deployment}`, "--timeout=300s");
}

export async function killOneExtender(tested: ClusterUnderTest): Promise<void> {
  const [pod = ""] = await podNames(tested, EXTENDERS);
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force");
}

export async function replaceExtenders({ kubectl }: ClusterUnderTest): Promise<void> {
  await kubectl("-n", SYSTEM_NAMESPACE, "rollout", "restart", "deployment/extender");
}

/** Resolves when none answers any more. */
export async function stopExtenders(tested: ClusterUnderTest): Promise<void> {
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "scale", "deployment/extender", "--replicas=0");
  await until(tested, "no extender to be left", async () =>
    (await podNames(tested, EXTENDERS)).length === 0 ? true : undefined,
  );
}

export async function startExtenders(tested: ClusterUnderTest): Promise<void> {
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "scale", "deployment/extender", `--replicas=${REPLICAS}`);
  await rolledOut(tested, "extender");
}
