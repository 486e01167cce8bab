// What happens to the node that is lost, besides the loss itself: where the controllers are before, and how it comes back.
import { LEASES } from "../../src/contracts/kubernetes/resources.ts";
import type { Cluster } from "../../test/cluster/cluster-state.ts";
import { powerOff, powerOn } from "../../test/cluster/node.ts";
import { nodeReady } from "../../test/cluster/readiness.ts";
import type { ClusterUnderTest } from "../../test/e2e/cluster-under-test.ts";
import { everyPodReady, SYSTEM_NAMESPACE } from "../../test/e2e/installed-tidemark.ts";
import { PODS, type Pod } from "../../test/e2e/pod.ts";
import { NAMESPACE as MEMBER_NAMESPACE, WORKLOADS as MEMBER_WORKLOADS } from "../../test/member-driver/manifests.ts";

const OUT_OF_SERVICE = "node.kubernetes.io/out-of-service";
/** What runs twice. */
const REPLICATED = ["operator", "policy-engine"];
const MEMBER_CONTROLLER = "member-controller";

/**
 * A node that is lost takes one replica of each of ours with it, and not the members' driver, of which this cluster has but one: a
 * driver that people use has another that goes on.
 */
export async function spreadControllers(tested: ClusterUnderTest, node: string): Promise<void> {
  await tested.kubectl("cordon", node);
  for (const component of REPLICATED) {
    const pods = await podsOf(tested, SYSTEM_NAMESPACE, `app.kubernetes.io/component=${component}`);
    const [first] = pods;
    if (first !== undefined && pods.every(({ spec }) => spec.nodeName === node)) await removePod(tested, first);
  }
  for (const pod of await podsOf(tested, MEMBER_NAMESPACE, `app=${MEMBER_CONTROLLER}`))
    if (pod.spec.nodeName === node) await removePod(tested, pod);
  await everyControllerReady(tested);
  await tested.kubectl("uncordon", node);
}

/** The leases that a process on the node holds. */
export async function leadershipsOn(tested: ClusterUnderTest, node: string): Promise<string[]> {
  const pods = (await podsOf(tested, SYSTEM_NAMESPACE)).filter(({ spec }) => spec.nodeName === node);
  const isOn = (holder = ""): boolean => pods.some(({ metadata }) => holder.startsWith(metadata.name));
  const leases = await tested.client.list(LEASES, { namespace: SYSTEM_NAMESPACE });
  return leases.items.filter(({ spec }) => isOn(spec?.holderIdentity)).map(({ metadata }) => metadata.name);
}

export async function cutPower(tested: ClusterUnderTest, cluster: Cluster, node: string): Promise<void> {
  await powerOff(cluster, node);
  await tested.kubectl("taint", "node", node, `${OUT_OF_SERVICE}=:NoExecute`);
}

/** Resolves when all that runs on it is Ready. */
export async function powerBack(tested: ClusterUnderTest, cluster: Cluster, node: string): Promise<void> {
  await tested.kubectl("taint", "node", node, `${OUT_OF_SERVICE}-`);
  await powerOn(cluster, node);
  await nodeReady(cluster, node);
  await everyControllerReady(tested);
}

async function podsOf({ client }: ClusterUnderTest, namespace: string, labelSelector?: string): Promise<Pod[]> {
  return (await client.list(PODS, { namespace, labelSelector })).items;
}

async function removePod({ kubectl }: ClusterUnderTest, { metadata }: Pod): Promise<void> {
  await kubectl("-n", metadata.namespace ?? "", "delete", "pod", metadata.name, "--wait");
}

async function everyControllerReady(tested: ClusterUnderTest): Promise<void> {
  await everyPodReady(tested);
  for (const workload of MEMBER_WORKLOADS)
    await tested.kubectl("-n", MEMBER_NAMESPACE, "rollout", "status", workload, "--timeout=300s");
}
