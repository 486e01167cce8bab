// Where pods with Tidemark volumes are put on a real Kubernetes, by the default scheduler alone and with the component: more pods at once
// than there is room for, a node that is full or has too few attach slots, extenders that go away, and the demonstration that this
// project began with.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { CSI_STORAGE_CAPACITIES, PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { SELECTED_NODE } from "../../src/contracts/names.ts";
import { GIB, MIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { EXTEND_AT_80 } from "../builders/policy.ts";
import { memberStates } from "../harness/member-states.ts";
import { MEMBER_DRIVER } from "../member-driver/config.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { applyObject } from "./apply-object.ts";
import { BREATHING, breathingPolicy } from "./breathing-policy.ts";
import { claimingPod, claimOf, localClass, spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { giveSlots } from "./give-slots.ts";
import { install, LVM_OVERLAY, loadImages, logsOf, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { giveVolumeGroups, groupOnNode, LARGE_NODE, SMALL_NODE, volumesOnNodes } from "./lvm-in-cluster.ts";
import { overCommits } from "./over-commits.ts";
import {
  claimsOf,
  makeMarkedPods,
  makePods,
  podsOf,
  refusedPlacements,
  release,
  removePods,
  runAndWait,
  runningOn,
  until,
  whyNotPlaced,
} from "./placed-pods.ts";
import {
  answeringExtender,
  extenderAnswers,
  installPlacement,
  killExtender,
  replaceExtenders,
  rolledOut,
  startExtenders,
  stopExtenders,
} from "./placement-component.ts";
import { type Pod, scriptPod } from "./pod.ts";
import { writerIn } from "./stateful-writer.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 600_000;
const CLASS = "e2e-placed";
const SPAN_CLASS = "e2e-placed-span";
const [NODE, OTHER_NODE] = [SMALL_NODE, LARGE_NODE];
const BURST = Array.from({ length: 7 }, (_, index) => `burst-${index}`);
const ROOM_FOR = 5;
const LARGE = { className: CLASS, request: "4Gi" };
const NO_ROOM = "did not have enough free storage";

let tested: ClusterUnderTest;
let memberDirectory = "";
/** How often the default scheduler alone has chosen a node for a burst that had no room left. */
let refusedAlone = Number.NaN;

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

/** As LVM has it, before a burst. */
async function roomOfNodes(): Promise<ReadonlyMap<string, number>> {
  const free = [NODE, OTHER_NODE].map(
    async (node) => [node, (await groupOnNode(clusterOf(tested), node)).freeBytes] as const,
  );
  return new Map(await Promise.all(free));
}

function hasNodes(pods: readonly Pod[], atLeast: number): true | undefined {
  return pods.filter(({ spec }) => spec.nodeName).length >= atLeast || undefined;
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

/** What the scheduler says of it, once that has this in it. */
async function whyWaits(name: string, text: string): Promise<string> {
  return until(tested, `pod ${name} to wait: ${text}`, async () => {
    const [pod] = await podsOf(tested, [name]);
    const said = pod === undefined ? "" : whyNotPlaced(pod);
    return said.includes(text) ? said : undefined;
  });
}

async function eventsOf(pod: string, reason: string): Promise<string> {
  const select = `involvedObject.name=${pod},reason=${reason}`;
  return tested.kubectl("get", "events", "--field-selector", select, "--output", "jsonpath={.items[*].message}");
}

describeOn("ours", "placement by the default scheduler", ["bundle", "lvm"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    memberDirectory = (await installMemberDriver(tested)) ?? "";
    await loadImages(tested);
    await giveVolumeGroups(clusterOf(tested));
    await install(tested, LVM_OVERLAY);
    await applyObject(tested, localClass(CLASS, { backend: "lvm" }));
    await applyObject(tested, spanClass(SPAN_CLASS));
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
    "gives a claim back to the scheduler whose node has no room for it",
    async () => {
      const claim = claimOf("refused", CLASS, "30Gi") as { metadata: object };
      const annotations = { [SELECTED_NODE]: NODE };
      await applyObject(tested, { ...claim, metadata: { ...claim.metadata, annotations } });
      await until(tested, "the claim to be refused there", async () => {
        const name = { namespace: tested.namespace, name: "refused" };
        const found = await tested.client.get(PERSISTENT_VOLUME_CLAIMS, name);
        const isGivenBack = found !== undefined && found.metadata.annotations?.[SELECTED_NODE] === undefined;
        return isGivenBack && (await refusedPlacements(tested)) > 0 ? true : undefined;
      });
      await removePods(tested, ["refused"]);
      await allIsFree();
    },
    LIMIT_MS,
  );

  it(
    "runs five of seven pods that come at once where five have room, says why two wait, and runs them once there is room",
    async () => {
      await makePods(tested, BURST, LARGE);
      const { running, waiting } = await runAndWait(tested, BURST, ROOM_FOR, NO_ROOM);
      refusedAlone = await refusedPlacements(tested);
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

  it(
    "tells a pod whose filesystem has four members which driver has three slots on its node, and keeps the data for a node with more",
    async () => {
      await giveSlots(tested, OTHER_NODE, memberDirectory, 3);
      await tested.kubectl("cordon", OTHER_NODE);
      await makePods(tested, ["wide"], { className: SPAN_CLASS, request: "1Gi" });
      expect(await runningOn(tested, "wide")).toEqual([NODE]);
      for (const gib of [2, 3, 4]) {
        const raised = JSON.stringify({ spec: { resources: { requests: { storage: `${gib}Gi` } } } });
        await tested.kubectl("patch", "pvc", "wide", "--patch", raised);
        await until(tested, `${gib} GiB`, async () => ((await capacityMiB("wide")) === gib * 1024 ? true : undefined));
      }
      const [layout] = (await tested.client.list(FILESYSTEM_LAYOUTS)).items;
      expect(layout?.spec.members?.map(({ name }) => name)).toEqual(["m0", "m1", "m2", "m3"]);
      await writerIn(tested, "wide").write(["kept"]);
      await tested.kubectl("delete", "pod", "wide", "--wait");
      await tested.kubectl("cordon", NODE);
      await tested.kubectl("uncordon", OTHER_NODE);
      await applyObject(tested, claimingPod("wide", tested.image, "wide"));
      const told = await until(tested, "the pod to be told of slots", async () => {
        const said = await eventsOf("wide", "FailedAttachVolume");
        return said.includes("attaches at most") ? said : undefined;
      });
      expect(told).toContain(
        `${MEMBER_DRIVER} attaches at most 3 volumes to node ${OTHER_NODE}, 0 are there, and 4 more are needed`,
      );
      await tested.kubectl("delete", "pod", "wide", "--wait");
      await tested.kubectl("uncordon", NODE);
      await tested.kubectl("cordon", OTHER_NODE);
      await applyObject(tested, claimingPod("wide", tested.image, "wide"));
      expect(await runningOn(tested, "wide")).toEqual([NODE]);
      expect(await writerIn(tested, "wide").damaged()).toBe("");
      await tested.kubectl("uncordon", OTHER_NODE);
      await tested.kubectl("delete", "pod", "wide", "--wait");
    },
    LIMIT_MS,
  );

  describe("with the component", () => {
    const takeovers: readonly (readonly [string, typeof killExtender])[] = [
      ["the extender is killed that answers", killExtender],
      ["the extenders are replaced by others", replaceExtenders],
    ];

    beforeAll(() => installPlacement(tested), BUILD_LIMIT_MS);

    it(
      "puts a filesystem of four members on the node that has slots for them, and says of the other one how many are missing",
      async () => {
        await tested.kubectl("cordon", NODE);
        // One more than it takes, for the next test.
        await giveSlots(tested, NODE, memberDirectory, 5);
        await makeMarkedPods(tested, ["wide"], { className: SPAN_CLASS, request: "4Gi" });
        await release(tested, ["wide"]);
        const why = await whyWaits("wide", "attach slots left");
        expect(why).toContain(`${MEMBER_DRIVER}: 4 volumes to attach, at most 3 attach slots left`);
        await tested.kubectl("uncordon", NODE);
        expect(await runningOn(tested, "wide")).toEqual([NODE]);
        expect(await writerIn(tested, "wide").damaged()).toBe("");
      },
      LIMIT_MS,
    );

    it(
      "runs a pod that no node takes for want of slots once that filesystem's members were merged, through the slot that was free",
      async () => {
        await tested.kubectl("cordon", OTHER_NODE);
        await applyObject(tested, claimOf("late-more", SPAN_CLASS, "1Gi"));
        const volumes = ["late", "late-more"].map((claimName, index) => ({
          name: index === 0 ? "data" : "more",
          persistentVolumeClaim: { claimName },
        }));
        await makeMarkedPods(tested, ["late"], { className: SPAN_CLASS, request: "1Gi", fields: { volumes } });
        await release(tested, ["late"]);
        const why = await whyWaits("late", "attach slots left");
        expect(why).toContain(`${MEMBER_DRIVER}: 2 volumes to attach, at most 1 attach slots left`);
        await applyObject(tested, breathingPolicy({ min: "1Gi", max: "20Gi" }, [EXTEND_AT_80]));
        expect(await runningOn(tested, "wide", "late")).toEqual([NODE, NODE]);
        expect(await eventsOf("late", "AttachSlotsNeeded")).toContain("merged into a new one of 2Gi would free 1");
        const { items } = await tested.client.list(FILESYSTEM_LAYOUTS);
        const wide = items.find(({ spec }) => spec.claimRef?.name === "wide");
        // Which two have left depends on what they held.
        const states = memberStates(wide?.spec.members).map((state) => state.replace(/m[0-3]/, "former"));
        expect(states).toEqual(["former 1Gi Present", "former 1Gi Present", "m4 2Gi Present"]);
        expect(await writerIn(tested, "wide").damaged()).toBe("");
        expect(await capacityMiB("wide")).toBe(4 * 1024);
        await tested.kubectl("delete", "volumepolicy", BREATHING);
        await removePods(tested, ["wide", "late", "late-more"]);
        await tested.kubectl("uncordon", OTHER_NODE);
        await allIsFree();
      },
      LIMIT_MS,
    );

    it(
      "puts each pod of a burst where there is room at the first try",
      async () => {
        const room = await roomOfNodes();
        await makeMarkedPods(tested, BURST, LARGE);
        await release(tested, BURST);
        const { running, waiting } = await runAndWait(tested, BURST, ROOM_FOR, "nodes are available");
        const refused = await refusedPlacements(tested);
        process.stderr.write(
          `placement: ${BURST.length} pods at once, room for ${ROOM_FOR}: refused placements ${refusedAlone} by the default ` +
            `scheduler alone, ${refused} with the component\n`,
        );
        expect(refused).toBe(0);
        expect(overCommits(await podsOf(tested, BURST), await claimsOf(tested, BURST), room)).toEqual([]);
        await removePods(tested, running.slice(0, waiting.length));
        await runningOn(tested, ...waiting, ...running.slice(waiting.length));
        expect(await volumesOnNodes(clusterOf(tested))).toHaveLength(ROOM_FOR);
        expect(await refusedPlacements(tested)).toBe(0);
        await removePods(tested, BURST);
        await allIsFree();
      },
      LIMIT_MS,
    );

    it.each(takeovers)(
      "goes on with a burst in whose middle %s, and gives no byte away twice",
      async (_what, takeAway) => {
        const room = await roomOfNodes();
        // Two are asked about first, two come meanwhile, and of the last three one fits at least.
        const [first, meanwhile, last] = [BURST.slice(0, 2), BURST.slice(2, 4), BURST.slice(4)];
        await makeMarkedPods(tested, BURST, LARGE);
        const before = await extenderAnswers(tested);
        await release(tested, first);
        const answering = await answeringExtender(tested, before);
        await until(tested, "one of the burst to have a node", async () => hasNodes(await podsOf(tested, BURST), 1));
        await Promise.all([release(tested, meanwhile), takeAway(tested, answering)]);
        const pods = await podsOf(tested, BURST);
        expect([hasNodes(pods, 1), hasNodes(pods, ROOM_FOR)]).toEqual([true, undefined]);
        const after = await extenderAnswers(tested);
        expect(after.has(answering)).toBe(false);
        await release(tested, last);
        await runAndWait(tested, BURST, ROOM_FOR, "nodes are available");
        expect(await answeringExtender(tested, after)).not.toBe(answering);
        // Who takes over may not have seen yet what another one has answered: then a node refuses, and the pod is tried elsewhere.
        expect(await refusedPlacements(tested)).toBeLessThanOrEqual(BURST.length);
        expect(overCommits(await podsOf(tested, BURST), await claimsOf(tested, BURST), room)).toEqual([]);
        expect(await volumesOnNodes(clusterOf(tested))).toHaveLength(ROOM_FOR);
        await removePods(tested, BURST);
        await allIsFree();
        await rolledOut(tested, "extender");
      },
      LIMIT_MS,
    );

    it(
      "brings a pod back to the node that its filesystem is on, and lets it wait for that one rather than go elsewhere",
      async () => {
        await makeMarkedPods(tested, ["home"], LARGE);
        await release(tested, ["home"]);
        const [home = ""] = await runningOn(tested, "home");
        await writerIn(tested, "home").write(["kept"]);
        await tested.kubectl("delete", "pod", "home", "--wait");
        await tested.kubectl("cordon", home);
        await makeMarkedPods(tested, ["home"], LARGE);
        await release(tested, ["home"]);
        await whyWaits("home", "didn't match PersistentVolume's node affinity");
        await tested.kubectl("uncordon", home);
        expect(await runningOn(tested, "home")).toEqual([home]);
        expect(await writerIn(tested, "home").damaged()).toBe("");
        await removePods(tested, ["home"]);
        await allIsFree();
      },
      LIMIT_MS,
    );

    it(
      "lets pods with Tidemark volumes wait while there is no extender, and nobody else",
      async () => {
        await stopExtenders(tested);
        await makeMarkedPods(tested, ["held"], LARGE);
        await release(tested, ["held"]);
        expect(await whyWaits("held", "https://extender:")).not.toBe("");
        await applyObject(tested, scriptPod(tested, "free", undefined, "true"));
        await until(tested, "a pod without volumes to have run", async () =>
          (await podsOf(tested, ["free"]))[0]?.status?.phase === "Succeeded" ? true : undefined,
        );
        await whyWaits("held", "https://extender:");
        await startExtenders(tested);
        await runningOn(tested, "held");
        await removePods(tested, ["held"]);
        await allIsFree();
      },
      LIMIT_MS,
    );

    it("does nothing that its roles do not allow", async () => {
      const refused = /forbidden|cannot (get|list|watch|create|update|patch|delete)/i;
      expect((await logsOf(tested)).split("\n").filter((line) => refused.test(line))).toEqual([]);
    });
  });
});
