// VolumeSnapshots on a real Kubernetes: the snapshot-controller and csi-snapshotter as released, the component `snapshots` and its roles. The
// nodes' volume groups are thick, so what a snapshot of a volume there is, is refused; what a thin pool makes of one is tested where there is
// device-mapper (test/vm/lvm-copies.vm.ts).
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { snapshotIdOf } from "../../src/contracts/identity.ts";
import { LOGICAL_VOLUMES } from "../../src/contracts/kinds/logical-volume.ts";
import { NODE_STORAGES } from "../../src/contracts/kinds/node-storage.ts";
import { EVENTS } from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION } from "../../src/contracts/names.ts";
import { waitFor } from "../harness/wait-for.ts";
import { applyObject } from "./apply-object.ts";
import { claimingPod, claimOf, localClass } from "./claiming-pod.ts";
import { type ClusterUnderTest, clusterOf, startClusterUnderTest } from "./cluster-under-test.ts";
import { describeOn } from "./describe-on.ts";
import { install, loadImages, logsOf, SNAPSHOTS_OVERLAY } from "./installed-tidemark.ts";
import { DEVICE_CLASS, giveVolumeGroups, volumesOnNodes } from "./lvm-in-cluster.ts";
import {
  CONTROLLER_NAMESPACE,
  giveSnapshots,
  VOLUME_SNAPSHOT_CONTENTS,
  VOLUME_SNAPSHOTS,
  type VolumeSnapshot,
  type VolumeSnapshotContent,
} from "./snapshots-in-cluster.ts";
import { writerIn } from "./stateful-writer.ts";
import { whatIsThere } from "./what-is-there.ts";

const BUILD_LIMIT_MS = 3_600_000;
const LIMIT_MS = 420_000;
const [LVM, LOOP, SNAPSHOT_CLASS] = ["e2e-lvm", "e2e-loop", "e2e-snapshots"];
const NODE = "node1";
const SNAPSHOT_API = "snapshot.storage.k8s.io/v1";

let tested: ClusterUnderTest;

async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  const otherwise = async (): Promise<string> => {
    const kinds = "volumesnapshots,volumesnapshotcontents,logicalvolumes";
    return `${await tested.kubectl("get", kinds, "-A", "-o", "yaml")}\n${await logsOfController()}\n${await whatIsThere(tested)}`;
  };
  return waitFor(what, look, { limitMs: LIMIT_MS / 2, intervalMs: 300, otherwise });
}

const logsOfController = (): Promise<string> =>
  tested.kubectl("-n", CONTROLLER_NAMESPACE, "logs", "deployment/snapshot-controller", "--tail=-1");

const snapshotOf = (name: string): Promise<VolumeSnapshot | undefined> =>
  tested.client.get(VOLUME_SNAPSHOTS, { namespace: tested.namespace, name });

async function contentOf(name: string): Promise<VolumeSnapshotContent | undefined> {
  const { items } = await tested.client.list(VOLUME_SNAPSHOT_CONTENTS);
  return items.find(({ spec }) => spec.volumeSnapshotRef.name === name);
}

async function takeSnapshot(name: string, source: object): Promise<void> {
  const kind = { apiVersion: SNAPSHOT_API, kind: "VolumeSnapshot" };
  await applyObject(tested, { ...kind, metadata: { name }, spec: { volumeSnapshotClassName: SNAPSHOT_CLASS, source } });
}

/** Nothing of it is left in the API. */
async function deleteSnapshot(name: string): Promise<void> {
  await tested.kubectl("delete", "volumesnapshot", name, "--timeout=120s");
  await contentGone(name);
}

async function contentGone(name: string): Promise<void> {
  await until(`the content of ${name} to go`, async () => ((await contentOf(name)) === undefined ? true : undefined));
}

/** A pod that waits for a claim with this source: what csi-provisioner tells the claim. */
async function refusalOfCopy(name: string, dataSource: object, why: string): Promise<string> {
  const { spec, ...claim } = claimOf(name, LVM ?? "", "1Gi") as { spec: object };
  await applyObject(tested, { ...claim, spec: { ...spec, dataSource } });
  await applyObject(tested, claimingPod(name, tested.image, name));
  const told = await until(`the word on claim ${name}`, async () => {
    const { items } = await tested.client.list(EVENTS, { namespace: tested.namespace });
    const own = items.filter((one) => one.involvedObject.name === name && one.reason === "ProvisioningFailed");
    return own.find(({ message }) => message?.includes(why))?.message;
  });
  await tested.kubectl("delete", "pod", "--wait", name);
  await tested.kubectl("delete", "pvc", "--timeout=120s", name);
  return told;
}

describeOn("ours", "VolumeSnapshots in a cluster", ["bundle", "lvm"], () => {
  beforeAll(async () => {
    tested = await startClusterUnderTest();
    await loadImages(tested);
    await giveVolumeGroups(clusterOf(tested));
    await giveSnapshots(tested);
    await install(tested, SNAPSHOTS_OVERLAY);
    await applyObject(tested, localClass(LVM ?? "", { backend: "lvm" }));
    await applyObject(tested, localClass(LOOP ?? ""));
    await applyObject(tested, {
      ...{ apiVersion: SNAPSHOT_API, kind: "VolumeSnapshotClass", metadata: { name: SNAPSHOT_CLASS } },
      ...{ driver: "local.tidemark.dev", deletionPolicy: "Delete" },
    });
    for (const name of clusterOf(tested).nodes)
      await until(`the class of ${name} to be told`, async () => {
        const { status } = (await tested.client.get(NODE_STORAGES, { name })) ?? {};
        return status?.deviceClasses?.find(({ backend }) => backend === "lvm");
      });
  }, BUILD_LIMIT_MS);

  afterAll(() => tested?.close(), LIMIT_MS);

  it.each([
    ["of a thick class", LVM ?? "", ", which is thick: snapshots and clones need"],
    ["of the backend loop", LOOP ?? "", "is of the backend loop"],
  ])(
    "of a volume %s is refused, and says so to its user; it is deleted, and the volume keeps every byte",
    async (_what, storageClassName, refusal) => {
      const name = `of-${storageClassName}`;
      await applyObject(tested, claimOf(name, storageClassName, "1Gi"));
      await applyObject(tested, claimingPod(name, tested.image, name));
      const writer = writerIn(tested, name);
      await writer.running();
      await writer.write(["before"]);
      await takeSnapshot(name, { persistentVolumeClaimName: name });
      const { status } = await until(`the word on snapshot ${name}`, async () => {
        const snapshot = await snapshotOf(name);
        return snapshot?.status?.error?.message === undefined ? undefined : snapshot;
      });
      expect(status?.error?.message).toContain(refusal);
      expect(status?.error?.message).toContain("thin pool");
      expect(status?.readyToUse).toBe(false);
      expect((await contentOf(name))?.status?.error?.message).toContain(refusal);
      expect(await namesOfSnapshots()).toEqual([]);
      await deleteSnapshot(name);
      expect(await writer.damaged()).toBe("");
      await tested.kubectl("delete", "pod", "--wait", name);
      await tested.kubectl("delete", "pvc", "--timeout=180s", name);
    },
    LIMIT_MS,
  );

  it(
    "that there is already becomes ready, a copy of it in a thick class is refused to its claim, and its volume goes when it is deleted",
    async () => {
      const id = snapshotIdOf(randomUUID());
      const spec = { nodeName: NODE, deviceClass: DEVICE_CLASS, size: "64Mi" };
      await applyObject(tested, { apiVersion: API_VERSION, kind: "LogicalVolume", metadata: { name: id }, spec });
      const volumeID = await until(`${id} to be made`, async () => {
        const made = await tested.client.get(LOGICAL_VOLUMES, { name: id });
        return made?.status?.volumeID;
      });
      const onNodes = async () => (await volumesOnNodes(clusterOf(tested))).map(({ name }) => name);
      expect(await onNodes()).toContain(volumeID);
      const kind = { apiVersion: SNAPSHOT_API, kind: "VolumeSnapshotContent", metadata: { name: "there" } };
      const own = { driver: "local.tidemark.dev", deletionPolicy: "Delete", source: { snapshotHandle: id } };
      const volumeSnapshotRef = { name: "there", namespace: tested.namespace };
      const more = { volumeSnapshotClassName: SNAPSHOT_CLASS, sourceVolumeMode: "Filesystem", volumeSnapshotRef };
      await applyObject(tested, { ...kind, spec: { ...own, ...more } });
      await takeSnapshot("there", { volumeSnapshotContentName: "there" });
      await until("the snapshot to be ready", async () => (await snapshotOf("there"))?.status?.readyToUse || undefined);
      const ofSnapshot = { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "there" };
      const why = `${id} is in device class ${DEVICE_CLASS} of node ${NODE}, which is thick`;
      expect(await refusalOfCopy("restored", ofSnapshot, why)).toContain(why);
      await tested.kubectl("delete", "volumesnapshot", "there", "--wait=false");
      await contentGone("there");
      // csi-provisioner lets go of the object itself five minutes after it refused the claim (--snapshot-orphan-sweep-interval): nobody waits here.
      if ((await snapshotOf("there")) !== undefined) await letGoOf("there");
      expect(await namesOfSnapshots()).toEqual([]);
      expect(await onNodes()).not.toContain(volumeID);
    },
    LIMIT_MS,
  );

  it(
    "are not needed for a clone: of a thick volume it is refused to its claim",
    async () => {
      await applyObject(tested, claimOf("cloned", LVM ?? "", "1Gi"));
      await applyObject(tested, claimingPod("cloned", tested.image, "cloned"));
      await writerIn(tested, "cloned").running();
      const why = "which is thick: snapshots and clones need a class of a thin pool";
      expect(await refusalOfCopy("clone", { kind: "PersistentVolumeClaim", name: "cloned" }, why)).toContain(why);
      await tested.kubectl("delete", "pod", "--wait", "cloned");
      await tested.kubectl("delete", "pvc", "--timeout=180s", "cloned");
    },
    LIMIT_MS,
  );

  it("do nothing that their roles do not allow", async () => {
    const refused = /forbidden|cannot (get|list|watch|create|update|patch|delete)/i;
    const said = `${await logsOf(tested)}\n${await logsOfController()}`;
    expect(said).toContain("csi-snapshotter");
    expect(said.split("\n").filter((line) => refused.test(line))).toEqual([]);
  });
});

async function letGoOf(name: string): Promise<void> {
  await tested.kubectl("patch", "volumesnapshot", name, "--type=merge", "--patch", '{"metadata":{"finalizers":null}}');
}

async function namesOfSnapshots(): Promise<string[]> {
  const { items } = await tested.client.list(LOGICAL_VOLUMES);
  return items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith("snap-"));
}
