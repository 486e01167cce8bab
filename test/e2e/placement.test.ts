// Where pods with Tidemark volumes are put on a real Kubernetes, by the default scheduler alone: one burst more than there is room for,
// a node that is full, and the demonstration that this project began with.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../src/api/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/api/logical-volume.ts";
import { CSI_STORAGE_CAPACITIES } from "../../src/kube/resources.ts";
import { GIB, MIB, parseQuantity } from "../../src/units/quantity.ts";
import { describeReal } from "../harness/real-parts.ts";
import { applyObject } from "./apply-object.ts";
import { localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterKind, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { install, LVM_OVERLAY, loadImages, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { giveVolumeGroups, groupOnNode, volumesOnNodes } from "./lvm-in-cluster.ts";
import { makePods, removePods, runAndWait, runningOn, until } from "./placed-pods.ts";
import { writerIn } from "./stateful-writer.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const CLASS = "e2e-placed";
const [NODE, OTHER_NODE] = ["node1", "node2"] as const;
/** Two and three volumes of 4 GiB. */
const GROUP_BYTES = { [NODE]: 8 * GIB + 512 * MIB, [OTHER_NODE]: 12 * GIB + 512 * MIB };
const BURST = Array.from({ length: 7 }, (_, index) => `burst-${index}`);
const ROOM_FOR = 5;
const NO_ROOM = "did not have enough free storage";

let tested: ClusterUnderTest;

const capacityMiB = (pod: string): Promise<number> => writerIn(tested, pod).capacityMiB();

/** As the scheduler is told of it for our class. */
async function roomToldIs(node: string, freeBytes: number): Promise<void> {
  await until(tested, `the scheduler to be told of ${freeBytes} bytes on ${node}`, async () => {
    const { items } = await tested.client.list(CSI_STORAGE_CAPACITIES, { namespace: SYSTEM_NAMESPACE });
    const own = items.find(
      ({ storageClassName, nodeTopology }) =>
        storageClassName === CLASS && Object.values(nodeTopology?.matchLabels ?? {}).includes(node),
    );
    return own !== undefined && parseQuantity(own.capacity ?? "0") === freeBytes ? true : undefined;
  });
}

/** A pod on the node whose volume leaves less than a GiB there. */
async function exhaust(node: string, name: string): Promise<void> {
  const { freeBytes } = await groupOnNode(clusterOf(tested), node);
  const request = `${Math.floor((freeBytes - 512 * MIB) / MIB)}Mi`;
  await makePods(tested, [name], {
    className: CLASS,
    request,
    fields: { nodeSelector: { "kubernetes.io/hostname": node } },
  });
  expect(await runningOn(tested, name)).toEqual([node]);
  await roomToldIs(node, (await groupOnNode(clusterOf(tested), node)).freeBytes);
}

/** In the API and on the nodes, and the scheduler knows. */
async function allIsFree(): Promise<void> {
  await until(tested, "nothing to be left", async () => {
    const lists = [await tested.client.list(FILESYSTEM_LAYOUTS), await tested.client.list(LOGICAL_VOLUMES)];
    const left = [...lists.flatMap(({ items }) => items.map(({ metadata }) => metadata.name))];
    return left.length + (await volumesOnNodes(clusterOf(tested))).length === 0 ? true : undefined;
  });
  for (const node of [NODE, OTHER_NODE]) {
    const { sizeBytes, freeBytes } = await groupOnNode(clusterOf(tested), node);
    expect(freeBytes).toBe(sizeBytes);
    await roomToldIs(node, freeBytes);
  }
}

const isOurs = clusterKind() !== "foreign";
if (!isOurs) it.skip("needs a cluster whose nodes it can give a volume group", () => undefined);
else
  describeReal("placement by the default scheduler", ["bundle", "cluster", "lvm"], () => {
    beforeAll(async () => {
      tested = await startClusterUnderTest();
      await loadImages(tested);
      await giveVolumeGroups(clusterOf(tested), GROUP_BYTES);
      await install(tested, LVM_OVERLAY);
      await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
      await allIsFree();
    }, BUILD_LIMIT_MS);

    afterAll(() => tested?.close(), LIMIT_MS);

    it(
      "makes a volume on demand, goes where there is room once a node has none, and grows the first volume with its filesystem",
      async () => {
        await makePods(tested, ["first"], { className: CLASS, request: "1Gi" });
        const [first = ""] = await runningOn(tested, "first");
        expect(await capacityMiB("first")).toBe(1024);
        const second = first === NODE ? OTHER_NODE : NODE;
        await exhaust(second, "filler");
        await makePods(tested, ["next"], { className: CLASS, request: "1Gi" });
        expect(await runningOn(tested, "next")).toEqual([first]);
        const five = Array.from({ length: 5 }, (_, index) => `more-${index}`);
        await makePods(tested, five, { className: CLASS, request: "1Gi" });
        expect(new Set(await runningOn(tested, ...five))).toEqual(new Set([first]));
        const raised = JSON.stringify({ spec: { resources: { requests: { storage: "2Gi" } } } });
        await tested.kubectl("patch", "pvc", "first", "--patch", raised);
        await until(tested, "the first filesystem to have 2 GiB", async () =>
          (await capacityMiB("first")) === 2048 ? true : undefined,
        );
        const volumes = (await volumesOnNodes(clusterOf(tested))).filter(({ node }) => node === first);
        expect(volumes.map(({ sizeBytes }) => sizeBytes / GIB).sort()).toEqual([1, 1, 1, 1, 1, 1, 2]);
        await removePods(tested, ["first", "filler", "next", ...five]);
        await allIsFree();
      },
      LIMIT_MS,
    );

    it(
      "runs five of seven pods that come at once where five have room, says why two wait, and runs them once there is room",
      async () => {
        await makePods(tested, BURST, { className: CLASS, request: "4Gi" });
        const { running, waiting } = await runAndWait(tested, BURST, ROOM_FOR, NO_ROOM);
        const volumes = await volumesOnNodes(clusterOf(tested));
        expect(volumes.map(({ node, sizeBytes }) => `${node} ${sizeBytes / GIB}`).sort()).toEqual(
          [NODE, NODE, OTHER_NODE, OTHER_NODE, OTHER_NODE].map((node) => `${node} 4`),
        );
        await removePods(tested, running.slice(0, waiting.length));
        await runningOn(tested, ...waiting, ...running.slice(waiting.length));
        expect(await volumesOnNodes(clusterOf(tested))).toHaveLength(ROOM_FOR);
        await removePods(tested, BURST);
        await allIsFree();
      },
      LIMIT_MS,
    );
  });
