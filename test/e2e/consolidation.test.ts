// A node whose attach slots are all taken by one filesystem of four small members, and a pod that waits there with two volumes: on a real
// API server, kubelets, and btrfs the filesystem is merged into two members, with all that is in it, and the pod runs.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import { VOLUME_ATTACHMENTS } from "../../src/contracts/kubernetes/resources.ts";
import { EXTEND_AT_80 } from "../builders/policy.ts";
import { MEMBER_CLASS, MEMBER_DRIVER } from "../member-driver/config.ts";
import { installMemberDriver } from "../member-driver/install.ts";
import { applyObject } from "./apply-object.ts";
import { breathingPolicy } from "./breathing-policy.ts";
import { claimingPod, claimOf, spanClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn, itSampled } from "./describe-on.ts";
import { giveSlots } from "./give-slots.ts";
import { install, loadImages, SYSTEM_NAMESPACE } from "./installed-tidemark.ts";
import { makePods, podsOf, removePods, runningOn, until } from "./placed-pods.ts";
import { writerIn } from "./stateful-writer.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 900_000;
const CLASS = "e2e-merged";
const [NODE, OTHER_NODE] = ["node1", "node2"] as const;
const SLOTS = 4;

let tested: ClusterUnderTest;

async function layoutOf(claim: string): Promise<FilesystemLayout | undefined> {
  const { items } = await tested.client.list(FILESYSTEM_LAYOUTS);
  return items.find(({ spec }) => spec.claimRef?.namespace === tested.namespace && spec.claimRef.name === claim);
}

/** Their sizes, the largest first: which of them leave depends on what they hold. */
const membersOf = (layout: FilesystemLayout | undefined): string[] =>
  (layout?.status?.members ?? [])
    .filter(({ state }) => state === "Present")
    .map(({ size }) => size)
    .sort()
    .reverse();

async function untilMembers(claim: string, ...sizes: string[]): Promise<void> {
  await until(tested, `${claim} to be made of members of ${sizes.join(", ")}`, async () => {
    const layout = await layoutOf(claim);
    const isSo = JSON.stringify(membersOf(layout)) === JSON.stringify(sizes);
    return isSo && layout?.spec.members?.length === sizes.length ? true : undefined;
  });
}

async function expandsMembers(allowVolumeExpansion: boolean): Promise<void> {
  await tested.kubectl("patch", "storageclass", MEMBER_CLASS, "--patch", JSON.stringify({ allowVolumeExpansion }));
}

/** Four members of 1 GiB, with files in it: made while its members could not grow. */
async function wideFilesystem(name: string): Promise<void> {
  await expandsMembers(false);
  await makePods(tested, [name], { className: CLASS, request: "1Gi" });
  expect(await runningOn(tested, name)).toEqual([NODE]);
  for (const gib of [2, 3, 4]) {
    const raised = JSON.stringify({ spec: { resources: { requests: { storage: `${gib}Gi` } } } });
    await tested.kubectl("patch", "pvc", name, "--patch", raised);
    await until(tested, `${gib} GiB`, async () =>
      (await writerIn(tested, name).capacityMiB()) === gib * 1024 ? true : undefined,
    );
  }
  await untilMembers(name, "1Gi", "1Gi", "1Gi", "1Gi");
  await writerIn(tested, name).write(["first", "second", "third", "fourth"], 200);
}

const claimsOf = (pod: string): string[] => ["one", "two"].map((each) => `${pod}-${each}`);

/** With two volumes. */
async function waitingPod(name: string, className: string): Promise<void> {
  const claims = claimsOf(name);
  const pod = claimingPod(name, tested.image, claims[0] ?? "") as { spec: { volumes: object[] } };
  const volumes = [...pod.spec.volumes, { name: "more", persistentVolumeClaim: { claimName: claims[1] } }];
  const items = [
    ...claims.map((claim) => claimOf(claim, className, "1Gi")),
    { ...pod, spec: { ...pod.spec, volumes } },
  ];
  await applyObject(tested, { apiVersion: "v1", kind: "List", items });
}

async function eventsOf(name: string, reason: string): Promise<string> {
  const select = `involvedObject.name=${name},reason=${reason}`;
  return tested.kubectl("get", "events", "--field-selector", select, "--output", "jsonpath={.items[*].message}");
}

/** A filesystem, and the pod that waited for it. */
async function removeAll(wide: string, late: string): Promise<void> {
  await tested.kubectl("delete", "pod", "--wait", wide, late);
  await removePods(tested, [wide, ...claimsOf(late)]);
}

async function attachedOnNode(): Promise<number> {
  const { items } = await tested.client.list(VOLUME_ATTACHMENTS);
  return items.filter(({ spec }) => spec.attacher === MEMBER_DRIVER && spec.nodeName === NODE).length;
}

describeOn("ours", "a pod that lacks attach slots on its node", ["bundle"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    const memberDirectory = (await installMemberDriver(tested)) ?? "";
    await loadImages(tested);
    await install(tested);
    await applyObject(tested, spanClass(CLASS, { strategy: "Auto" }));
    await giveSlots(tested, NODE, memberDirectory, SLOTS);
    await tested.kubectl("cordon", OTHER_NODE);
    tested.afterwards(() => tested.kubectl("uncordon", OTHER_NODE));
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it(
    "waits while no policy allows it, and runs once the members of another filesystem there were merged, whose data is the same",
    async () => {
      await wideFilesystem("wide");
      expect(await attachedOnNode()).toBe(SLOTS);
      await expandsMembers(true);
      await waitingPod("late", CLASS);
      const need = await until(tested, "the Filesystem to say who waits", async () => {
        const name = { namespace: tested.namespace, name: "wide" };
        return (await tested.client.get(FILESYSTEMS, name))?.status?.consolidation;
      });
      expect(need).toMatchObject({ pod: `${tested.namespace}/late`, node: NODE, members: 2, growth: "2Gi" });
      // Nobody has allowed anything yet.
      expect(membersOf(await layoutOf("wide"))).toHaveLength(SLOTS);
      await applyObject(tested, breathingPolicy({ min: "1Gi", max: "20Gi" }, [EXTEND_AT_80]));
      await untilMembers("wide", "3Gi", "1Gi");
      expect(await runningOn(tested, "wide", "late")).toEqual([NODE, NODE]);
      expect(await writerIn(tested, "wide").damaged()).toBe("");
      expect(await writerIn(tested, "wide").capacityMiB()).toBe(SLOTS * 1024);
      expect(await attachedOnNode()).toBe(SLOTS);
      expect((await podsOf(tested, ["wide"]))[0]?.status).toMatchObject({ phase: "Running" });
      for (const about of ["wide", "late"]) {
        expect(await eventsOf(about, "AttachSlotsNeeded")).toContain(
          `lacks 2 attach slots of ${MEMBER_DRIVER} on node ${NODE}`,
        );
        expect(await eventsOf(about, "ConsolidationSucceeded")).toContain("it has 2 members now");
      }
      await until(tested, "nothing to be wanted any more", async () => {
        const name = { namespace: tested.namespace, name: "wide" };
        return (await tested.client.get(FILESYSTEMS, name))?.status?.consolidation === undefined ? true : undefined;
      });
      await removeAll("wide", "late");
    },
    LIMIT_MS,
  );

  itSampled(
    3,
    "is given its node by the stock scheduler once there are slots, though each process is killed while members are merged",
    async () => {
      await wideFilesystem("broad");
      await expandsMembers(true);
      await waitingPod("ordinary", MEMBER_CLASS);
      await until(tested, "the merge to be decided", async () => {
        const name = { namespace: tested.namespace, name: "broad" };
        return (await tested.client.get(FILESYSTEMS, name))?.spec.target?.members;
      });
      await tested.kubectl("-n", SYSTEM_NAMESPACE, "delete", "pod", "--all", "--grace-period=0", "--force");
      await untilMembers("broad", "3Gi", "1Gi");
      expect(await runningOn(tested, "broad", "ordinary")).toEqual([NODE, NODE]);
      expect(await writerIn(tested, "broad").damaged()).toBe("");
      expect(await writerIn(tested, "broad").capacityMiB()).toBe(SLOTS * 1024);
      await removeAll("broad", "ordinary");
    },
    LIMIT_MS,
  );
});
