// How many volumes of the member driver a node takes, as kubelet is told of it.
import { CSI_NODES } from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_DRIVER } from "../member-driver/config.ts";
import { NAMESPACE as MEMBER_DRIVER_NAMESPACE } from "../member-driver/manifests.ts";
import { readSwitches, writeSwitches } from "../member-driver/switches.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { until } from "./placed-pods.ts";

/** Until the suite ends. */
export async function giveSlots(
  tested: ClusterUnderTest,
  node: string,
  memberDirectory: string,
  slots: number,
): Promise<void> {
  tested.afterwards(() => tellSlots(tested, node, memberDirectory, readSwitches(memberDirectory).maxVolumesPerNode));
  await tellSlots(tested, node, memberDirectory, slots);
}

/** A restarted part of the driver registers anew, and kubelet writes the number that it tells then. */
async function tellSlots(
  tested: ClusterUnderTest,
  node: string,
  memberDirectory: string,
  slots: number,
): Promise<void> {
  writeSwitches(memberDirectory, { maxVolumesPerNode: slots });
  const ofNode = ["--field-selector", `spec.nodeName=${node}`, "--selector", "app=member-node"];
  await tested.kubectl("-n", MEMBER_DRIVER_NAMESPACE, "delete", "pod", "--wait", ...ofNode);
  await until(tested, `${MEMBER_DRIVER} to take ${slots} volumes on ${node}`, async () => {
    const { spec } = (await tested.client.get(CSI_NODES, { name: node })) ?? { spec: { drivers: [] } };
    return spec.drivers.find(({ name }) => name === MEMBER_DRIVER)?.allocatable?.count === slots ? true : undefined;
  });
  // By it the driver's controller refuses at once, on every node.
  writeSwitches(memberDirectory, {});
}
