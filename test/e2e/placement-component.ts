// The component placement in a cluster: what it is installed from, and what is done to its extenders.
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { filterAnswers } from "./extender-answers.ts";
import { install, loadScheduler, PLACEMENT_OVERLAY, podNames, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { until } from "./placed-pods.ts";

const EXTENDERS = "app.kubernetes.io/component=extender";
const METRICS_PORT = 9474;
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

/** How many questions each of them has answered since it was started; one that cannot be asked is not told. */
export async function extenderAnswers(tested: ClusterUnderTest): Promise<ReadonlyMap<string, number>> {
  const told = (await podNames(tested, EXTENDERS)).map(async (pod) => {
    const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/pods/${pod}:${METRICS_PORT}/proxy/metrics`;
    const metrics = await tested.kubectl("get", "--raw", path).catch(() => undefined);
    return metrics === undefined ? [] : [[pod, filterAnswers(metrics)] as const];
  });
  return new Map((await Promise.all(told)).flat());
}

/** The one that the scheduler asks: it has answered since. */
export async function answeringExtender(
  tested: ClusterUnderTest,
  before: ReadonlyMap<string, number>,
): Promise<string> {
  return until(tested, "an extender to answer", async () => {
    const now = await extenderAnswers(tested);
    return [...now].find(([pod, count]) => count > (before.get(pod) ?? 0))?.[0];
  });
}

/** Resolves when it is gone. */
export async function killExtender(tested: ClusterUnderTest, pod: string): Promise<void> {
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", pod, "--grace-period=0", "--force");
  await gone(tested, [pod]);
}

/** By a rollout, as another version comes. Resolves when none is left that was there before. */
export async function replaceExtenders(tested: ClusterUnderTest): Promise<void> {
  const old = await podNames(tested, EXTENDERS);
  await tested.kubectl("-n", SYSTEM_NAMESPACE, "rollout", "restart", "deployment/extender");
  await rolledOut(tested, "extender");
  await gone(tested, old);
}

async function gone(tested: ClusterUnderTest, pods: readonly string[]): Promise<void> {
  await until(tested, `${pods.join(", ")} to be gone`, async () => {
    const left = await podNames(tested, EXTENDERS);
    return left.some((pod) => pods.includes(pod)) ? undefined : true;
  });
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
