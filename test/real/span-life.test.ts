import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { fsidOf } from "../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type FilesystemLayoutStatus,
} from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  CSI_NODES,
  EVENTS,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  RESOURCE_QUOTAS,
} from "../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, RECORDS } from "../../src/contracts/names.ts";
import { formatQuantity, GIB } from "../../src/contracts/quantities/quantity.ts";
import { memberBytesOf } from "../../src/operator/decide/members/member-bytes.ts";
import { buildClaim } from "../builders/claim.ts";
import {
  createDriver,
  createMemberClass,
  createMemberNode,
  MEMBER_CLASS,
  MEMBER_DRIVER,
  type MemberSidecars,
} from "../fakes/member-sidecars.ts";
import { untilRead } from "../harness/wait-for.ts";
import type { TestCluster } from "../integration/operator/cluster.ts";
import { type SpanCluster, startSpanCluster } from "../integration/operator/span-cluster.ts";
import { isAttached, type SpanUnderTest } from "../integration/operator/span-under-test.ts";

const GROWING_CLASS = "growing-class";
const PLAIN_CLASS = "plain-class";
const PLAIN_DRIVER = "plain.example.com";
let tested: SpanCluster;
let cluster: TestCluster;
let sidecars: MemberSidecars;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ cluster, sidecars, span } = tested);
  await createMemberClass(cluster.client, GROWING_CLASS, true);
  await createMemberClass(cluster.client, PLAIN_CLASS, false, PLAIN_DRIVER);
  await createDriver(cluster.client, PLAIN_DRIVER, false);
});
afterAll(() => tested.stop());
beforeEach(() => {
  sidecars.resume();
});

const memberOf = (layout: FilesystemLayout | undefined, name: string) =>
  layout?.spec.members?.find((member) => member.name === name);
const claimOf = (layout: FilesystemLayout | undefined, name: string) => memberOf(layout, name)?.source.claim;
const mounted = (nodeName: string, ...sizes: [string, string][]): FilesystemLayoutStatus => ({
  nodeName,
  mounted: true,
  members: sizes.map(([name, size], devid) => ({ name, size, state: "Present", devid: devid + 1 })),
});

/** Published to node-a, and mounted there. */
async function inUse(parameters?: Record<string, string>): Promise<{ handle: string; claim: string }> {
  const volume = await span.created(parameters);
  await span.publish(volume.handle, "node-a");
  await span.untilLayout("m0 is attached", volume.handle, isAttached("m0"));
  await span.report(volume.handle, mounted("node-a", ["m0", "2Gi"]));
  return volume;
}

describe("CreateVolume of a span", () => {
  it("makes a first member, keeps its volume, and answers with where that can be used", async () => {
    const request = span.request();
    const { volume } = await span.create(request);
    const handle = volume?.volumeId ?? "";
    expect(volume).toMatchObject({
      capacityBytes: 2 * GIB,
      accessibleTopology: [{ segments: { "zone.example.com": "a" } }],
      volumeContext: { "tidemark.dev/backend": "span", "tidemark.dev/member-class": MEMBER_CLASS },
    });
    const uid = handle.slice("fs-".length);
    const labels = { "tidemark.dev/volume-uid": uid, "tidemark.dev/fsid": fsidOf(uid), "tidemark.dev/member": "m0" };
    const claim = await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, {
      namespace: MEMBER_NAMESPACE,
      name: `${handle}-m0`,
    });
    expect(claim).toMatchObject({
      metadata: { labels, annotations: { "volume.kubernetes.io/selected-node": "node-1" } },
      spec: { volumeMode: "Block", accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "2Gi" } } },
    });
    const persistentVolume = await cluster.client.get(PERSISTENT_VOLUMES, { name: claim?.spec.volumeName ?? "" });
    expect(persistentVolume).toMatchObject({ metadata: { labels }, spec: { persistentVolumeReclaimPolicy: "Retain" } });
    const layout = await span.layout(handle);
    expect(layout?.spec.nodeName).toBeUndefined();
    expect(layout?.spec.members).toEqual([
      {
        name: "m0",
        size: "2Gi",
        state: "Present",
        source: {
          claim: {
            name: `${handle}-m0`,
            uid: claim?.metadata.uid,
            volumeName: claim?.spec.volumeName,
            persistentVolumeUID: persistentVolume?.metadata.uid,
            driver: MEMBER_DRIVER,
            volumeHandle: `device-of-${handle}-m0`,
            volumeAttributes: { made: "by test" },
            capacity: "2Gi",
          },
        },
      },
    ]);
    expect(await span.create(request)).toEqual({ volume });
  });

  it("asks to be called again while the member is not bound, and finishes then", async () => {
    sidecars.binds = false;
    const request = span.request();
    const first = span.create(request);
    const { items } = await untilRead(
      "its claim",
      () => cluster.client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE }),
      (list) => list.items.some(({ spec }) => spec.volumeName === undefined),
    );
    expect(items.filter(({ spec }) => spec.volumeName === undefined)).toHaveLength(1);
    await expect(span.create(request)).rejects.toMatchObject({ code: status.ABORTED });
    sidecars.binds = true;
    sidecars.catchUp();
    expect((await first).volume?.volumeId).toBe(`fs-${(await first).volume?.volumeContext["tidemark.dev/volume-uid"]}`);
  });

  it("that has no room on its node is RESOURCE_EXHAUSTED, and leaves nothing behind", async () => {
    sidecars.binds = false;
    const before = (await cluster.client.list(FILESYSTEMS)).items.length;
    const creating = span.create(span.request());
    const refused = expect(creating).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining("no space on node-1"),
    });
    const pending = await untilRead(
      "its claim",
      async () =>
        (await cluster.client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE })).items.find(
          ({ spec }) => spec.volumeName === undefined,
        ),
      (claim) => claim !== undefined,
    );
    const { name = "", uid } = pending?.metadata ?? {};
    await cluster.client.create("test/event", EVENTS, {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace: MEMBER_NAMESPACE, name: `${name}.1` },
      involvedObject: { kind: "PersistentVolumeClaim", namespace: MEMBER_NAMESPACE, name, uid },
      type: "Warning",
      reason: "ProvisioningFailed",
      message: "failed to provision: no space on node-1",
    });
    const annotations = { "volume.kubernetes.io/selected-node": null };
    const claimName = { namespace: MEMBER_NAMESPACE, name };
    await cluster.client.mergePatch("test/send-away", PERSISTENT_VOLUME_CLAIMS, claimName, {
      metadata: { annotations },
    });
    await refused;
    expect(await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, claimName)).toBeUndefined();
    expect(await span.layout(name.slice(0, -"-m0".length))).toBeUndefined();
    expect((await cluster.client.list(FILESYSTEMS)).items).toHaveLength(before);
  });

  it("for a claim that is deleted meanwhile leaves nothing behind", async () => {
    const claim = buildClaim({ name: "short-lived", namespace: "shop", storageClassName: "span" });
    const { metadata } = await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
    const parameters = { "csi.storage.k8s.io/pvc/name": "short-lived" };
    const request = span.request(parameters, { name: `pvc-${metadata.uid}` });
    const handle = (await span.create(request)).volume?.volumeId ?? "";
    await cluster.client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name: "short-lived" });
    await expect(span.create(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    expect(await span.layout(handle)).toBeUndefined();
    expect(await span.claims(handle)).toEqual([]);
  });

  it.each<[string, Record<string, string>, string]>([
    ["no member class", { memberStorageClassName: "" }, "memberStorageClassName"],
    ["a member class that is not there", { memberStorageClassName: "nowhere" }, 'no StorageClass "nowhere"'],
    ["a member class of Tidemark's own", { memberStorageClassName: "tidemark-loop" }, "cannot be members"],
    ["ext4", { "csi.storage.k8s.io/fstype": "ext4" }, "needs btrfs"],
    ["too many members", { maxMembers: "5" }, "maxMembers"],
    ["only spares", { maxMembers: "1", spareMembers: "1" }, "leaves no member"],
    ["an unknown strategy", { strategy: "Guess" }, "Auto, GrowMember, AddMember"],
    ["another driver's backend", { backend: "loop" }, "span"],
  ])("refuses %s", async (_what, parameters, text) => {
    await expect(span.create(span.request(parameters))).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining(text),
    });
  });

  it("repeated with other member rules is ALREADY_EXISTS", async () => {
    const request = span.request();
    await span.create(request);
    const other = { ...request, parameters: { ...request.parameters, maxMembers: "2" } };
    await expect(span.create(other)).rejects.toMatchObject({
      code: status.ALREADY_EXISTS,
      details: expect.stringContaining("2 of class"),
    });
  });
});

describe("a span on its nodes", () => {
  it("is attached by names of our own, and given with what attaching told", async () => {
    const { handle } = await span.created();
    await span.publish(handle, "node-a");
    const layout = await span.untilLayout("m0 is attached", handle, isAttached("m0"));
    const name = claimOf(layout, "m0")?.attachment?.name ?? "";
    expect(name).toMatch(/^tidemark-[0-9a-f]{32}$/);
    expect(layout.spec.nodeName).toBe("node-a");
    expect(claimOf(layout, "m0")?.attachment).toEqual({
      nodeName: "node-a",
      name,
      uid: expect.any(String),
      context: { path: `/dev/node-a/${name}` },
    });
    await span.publish(handle, "node-a");
    expect((await span.attachments()).filter(({ metadata }) => metadata.name === name)).toHaveLength(1);
  });

  it("stays on a node that has it mounted, and moves once that has released it", async () => {
    const { handle } = await inUse();
    await expect(span.publish(handle, "node-b")).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("mounted on node node-a"),
    });
    await expect(span.unpublish(handle, "node-a")).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    expect(claimOf(await span.layout(handle), "m0")?.attachment?.nodeName).toBe("node-a");

    await span.report(handle, { ...mounted("node-a", ["m0", "2Gi"]), mounted: false });
    await expect(span.publish(handle, "node-b")).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    await span.report(handle, mounted("node-a", ["m0", "2Gi"]));
    const unpublishing = span.unpublish(handle, "node-a");
    await span.report(handle, { ...mounted("node-a", ["m0", "2Gi"]), mounted: false });
    await unpublishing;
    const released = await span.layout(handle);
    expect(released?.spec.nodeName).toBeUndefined();
    expect(claimOf(released, "m0")?.attachment).toBeUndefined();
    const uid = handle.slice("fs-".length);
    const own = async () =>
      (await span.attachments()).filter(({ metadata }) => metadata.labels?.["tidemark.dev/volume-uid"] === uid);
    expect(await own()).toEqual([]);

    await span.publish(handle, "node-b");
    await span.untilLayout("m0 is attached", handle, isAttached("m0"));
    expect((await own()).map(({ spec }) => spec.nodeName)).toEqual(["node-b"]);
  });

  it("whose driver attaches nothing is given at once, and to one node only", async () => {
    const { handle } = await span.created({ memberStorageClassName: PLAIN_CLASS });
    await span.publish(handle, "node-a");
    const layout = await span.untilLayout("m0 is given", handle, isAttached("m0"));
    expect(claimOf(layout, "m0")).toMatchObject({ driver: PLAIN_DRIVER, attachment: { nodeName: "node-a" } });
    await expect(span.publish(handle, "node-b")).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("published to node node-a"),
    });
    await span.unpublish(handle, "node-a");
    await span.publish(handle, "node-b");
    await span.untilLayout("m0 is given", handle, (one) => claimOf(one, "m0")?.attachment?.nodeName === "node-b");
    expect((await span.attachments()).filter(({ spec }) => spec.attacher === PLAIN_DRIVER)).toEqual([]);
  });

  it("leaves a node that is out of service, mounted or not", async () => {
    const { handle } = await inUse();
    const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
    const taints = (list: object[]) =>
      cluster.client.mergePatch("test/taint", NODES, { name: "node-a" }, { spec: { taints: list } });
    await taints([taint]);
    await span.unpublish(handle, "node-a");
    await span.publish(handle, "node-b");
    expect((await span.layout(handle))?.spec.nodeName).toBe("node-b");
    await taints([]);
  });

  it("has its attachment made again where somebody has deleted it", async () => {
    const { handle } = await inUse();
    const name = claimOf(await span.layout(handle), "m0")?.attachment?.name ?? "";
    const before = (await span.attachments()).find(({ metadata }) => metadata.name === name)?.metadata.uid;
    const { VOLUME_ATTACHMENTS } = await import("../../src/contracts/kubernetes/resources.ts");
    await cluster.client.delete("test/detach", VOLUME_ATTACHMENTS, { name });
    await untilRead(
      "a new one",
      async () => (await span.attachments()).find(({ metadata }) => metadata.name === name),
      (one) => one !== undefined && one.metadata.uid !== before && one.status?.attached === true,
    );
  });

  it("is refused a node whose slots for the members' driver are used up", async () => {
    const { handle } = await span.created();
    const used = (await span.attachments()).filter(({ spec }) => spec.nodeName === "node-b").length;
    await createMemberNode(cluster.client, "node-b", used);
    await expect(span.publish(handle, "node-b")).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining(`${MEMBER_DRIVER} attaches at most ${used} volumes to node node-b, ${used} are`),
    });
    expect((await span.layout(handle))?.spec.nodeName).toBeUndefined();
    await cluster.client.delete("test/csi-node", CSI_NODES, { name: "node-b" });
  });

  it.each([
    ["a node that is not there", "nowhere", status.NOT_FOUND],
    ["no node", "", status.INVALID_ARGUMENT],
  ])("is refused %s", async (_what, node, code) => {
    const { handle } = await span.created();
    await expect(span.publish(handle, node)).rejects.toMatchObject({ code });
  });
});

describe("the members of a span", () => {
  it("become more for a target above, and fewer for one below, in order", async () => {
    const { handle, claim } = await inUse();
    sidecars.attaches = false;
    await span.target(claim, "3500Mi", "2Gi");
    const extended = await span.untilLayout("a second member", handle, ({ spec }) => spec.members?.length === 2);
    expect(extended.spec.target?.size).toBe("3500Mi");
    expect(memberOf(extended, "m1")).toMatchObject({ size: "2Gi", state: "Present" });
    await span.untilCondition(
      "the Filesystem says what is waited for",
      claim,
      "Reconciling",
      (one) => one.reason === "WaitingForMember" && one.message.includes("m1") && one.message.includes(MEMBER_DRIVER),
    );
    expect(claimOf(await span.layout(handle), "m1")).toEqual({ name: `${handle}-m1` });
    sidecars.attaches = true;
    sidecars.catchUp();
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await span.report(handle, mounted("node-a", ["m0", "2Gi"], ["m1", "2Gi"]));

    await span.target(claim, "1900Mi", "4Gi");
    const shrinking = await span.untilLayout(
      "m1 is to go",
      handle,
      (layout) => memberOf(layout, "m1")?.state === "Removed",
    );
    expect(shrinking.spec.target?.size).toBe("2Gi");
    expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);

    sidecars.detaches = false;
    const members = mounted("node-a", ["m0", "2Gi"]).members ?? [];
    const removed = { name: "m1", size: "2Gi", state: "Removed" as const };
    await span.report(handle, { ...mounted("node-a"), members: [...members, removed] });
    // Said at the end of a pass that has found it attached.
    await span.untilCondition("m1 is asked to be detached", claim, "Reconciling", (one) =>
      /member m1: VolumeAttachment \S+ .* to go/.test(one.message),
    );
    // R5 before R6: while it is attached the claim stays, and its volume is kept.
    expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);
    const volumeOf = async (name: string) =>
      (await cluster.client.list(PERSISTENT_VOLUMES)).items.find(({ spec }) => spec.claimRef?.name === name)?.spec;
    expect((await volumeOf(`${handle}-m1`))?.persistentVolumeReclaimPolicy).toBe("Retain");
    sidecars.detaches = true;
    sidecars.catchUp();
    await span.untilLayout("m1 has left", handle, ({ spec }) => spec.members?.length === 1);
    expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
    await untilRead(
      "its volume is reclaimed",
      () => span.volumes(handle),
      (names) => names.length === 1,
    );
    expect((await volumeOf(`${handle}-m0`))?.persistentVolumeReclaimPolicy).toBe("Retain");

    await span.report(handle, mounted("node-a", ["m0", "2Gi"]));
    await span.target(claim, "3Gi", "2Gi");
    const again = await span.untilLayout("a member more", handle, ({ spec }) => spec.members?.length === 2);
    expect(again.spec.members?.map(({ name, size }) => [name, size])).toEqual([
      ["m0", "2Gi"],
      ["m2", "1Gi"],
    ]);
  });

  it("are counted by the claim that they are for, and by their class", async () => {
    const { handle, claim } = await inUse();
    await span.expand(handle, 5 * GIB);
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    const labels = `namespace="shop",persistentvolumeclaim="${claim}",storageclass="${MEMBER_CLASS}"`;
    await untilRead(
      "both in the operator's caches",
      async () => (await fetch(`http://127.0.0.1:${cluster.operatorHttpPort()}/metrics`)).text(),
      (metrics) => metrics.includes(`tidemark_member_bytes{${labels}} ${5 * GIB}\n`),
    );
  });

  it("grow in place where their class allows it", async () => {
    const { handle, claim } = await inUse({ memberStorageClassName: GROWING_CLASS });
    await span.target(claim, "3500Mi", "2Gi");
    const layout = await span.untilLayout(
      "its volume is larger",
      handle,
      (one) => claimOf(one, "m0")?.capacity === "4Gi",
    );
    expect(layout.spec.members).toHaveLength(1);
    expect(memberOf(layout, "m0")?.size).toBe("4Gi");
    const readClaim = () =>
      cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` });
    expect((await readClaim())?.status?.capacity?.storage).toBe("2Gi");
    await span.report(handle, mounted("node-a", ["m0", "4Gi"]));
    await untilRead("the claim shows it", readClaim, (one) => one?.status?.capacity?.storage === "4Gi");
  });

  it("are decided in the same write as a raised request", async () => {
    const { handle } = await inUse();
    expect(await span.expand(handle, 5 * GIB)).toEqual({ capacityBytes: 5 * GIB, nodeExpansionRequired: false });
    const layout = await span.layout(handle);
    expect(layout?.spec.target?.size).toBe("5Gi");
    expect(layout?.spec.members?.map(({ size }) => size)).toEqual(["2Gi", "3Gi"]);
  });

  it("stay where none is small enough to be given back, nor worth replacing, and the Filesystem says why", async () => {
    const { handle, claim } = await inUse();
    await span.target(claim, "1500Mi", "2Gi");
    const hold = await span.untilCondition(
      "the hold",
      claim,
      "Reconciling",
      (one) => one.reason === "ShrinkFloorReached",
    );
    expect(hold).toMatchObject({ status: "False", message: expect.stringContaining("only one member") });
    expect((await span.condition(claim, "Stalled"))?.status).toBe("False");
    expect((await span.layout(handle))?.spec.target).toBeUndefined();
  });

  it("are none beyond the quota of the claim's namespace on their class, and come once that is raised", async () => {
    const { handle, claim } = await inUse();
    const key = `${MEMBER_CLASS}.storageclass.storage.k8s.io/requests.storage`;
    const taken = (await cluster.client.list(FILESYSTEM_LAYOUTS)).items
      .filter(({ metadata }) => metadata.annotations?.[RECORDS.memberClass] === MEMBER_CLASS)
      .reduce((sum, layout) => sum + memberBytesOf(layout), 0);
    const limit = async (bytes: number): Promise<void> => {
      await cluster.client.apply(
        "test/quota",
        RESOURCE_QUOTAS,
        {
          apiVersion: "v1",
          kind: "ResourceQuota",
          metadata: { namespace: "shop", name: "members" },
          spec: { hard: { [key]: formatQuantity(bytes) } },
        },
        { fieldManager: "test" },
      );
    };
    await limit(taken);
    await span.target(claim, "3Gi", "2Gi");
    const hold = await span.untilCondition("the hold", claim, "Reconciling", (one) => one.reason === "QuotaExceeded");
    expect(hold).toMatchObject({ status: "False", message: expect.stringContaining("ResourceQuota members") });
    await expect(span.expand(handle, 3 * GIB)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await expect(span.create(span.request())).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining("QuotaExceeded"),
    });
    expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
    await limit(taken + GIB);
    await span.target(claim, "3Gi", "2Gi");
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await cluster.client.delete("test/quota", RESOURCE_QUOTAS, { namespace: "shop", name: "members" });
  });

  it("that have no room are said so with their provisioner's words, and are asked for again", async () => {
    const { handle, claim } = await inUse();
    sidecars.binds = false;
    await span.target(claim, "3Gi", "2Gi");
    const name = { namespace: MEMBER_NAMESPACE, name: `${handle}-m1` };
    const read = () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, name);
    const pending = await untilRead("its claim", read, (one) => one !== undefined);
    expect(pending?.metadata.annotations?.["volume.kubernetes.io/selected-node"]).toBe("node-a");
    await cluster.client.create("test/event", EVENTS, {
      apiVersion: "v1",
      kind: "Event",
      metadata: { namespace: MEMBER_NAMESPACE, name: `${name.name}.1` },
      involvedObject: { kind: "PersistentVolumeClaim", ...name, uid: pending?.metadata.uid },
      type: "Warning",
      reason: "ProvisioningFailed",
      message: "the pool is full",
    });
    const annotations = { "volume.kubernetes.io/selected-node": null };
    await cluster.client.mergePatch("test/send-away", PERSISTENT_VOLUME_CLAIMS, name, { metadata: { annotations } });
    const stalled = await span.untilCondition("Stalled", claim, "Stalled", (one) => one.status === "True");
    expect(stalled).toMatchObject({ reason: "MemberFailed", message: expect.stringContaining("the pool is full") });
    await untilRead(
      "the node",
      read,
      (one) => one?.metadata.annotations?.["volume.kubernetes.io/selected-node"] === "node-a",
    );
    sidecars.binds = true;
    sidecars.catchUp();
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await span.untilCondition("not Stalled", claim, "Stalled", (one) => one.status === "False");
  });

  it("are not made again in place of one that is lost, and the Filesystem is Stalled", async () => {
    const { handle, claim } = await inUse();
    const claimName = { namespace: MEMBER_NAMESPACE, name: `${handle}-m0` };
    await cluster.client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, claimName);
    const stalled = await span.untilCondition("Stalled", claim, "Stalled", (one) => one.status === "True");
    expect(stalled).toMatchObject({ reason: "MemberFailed", message: expect.stringContaining(`${handle}-m0`) });
    expect(await span.claims(handle)).toEqual([]);
  });
});

describe("DeleteVolume of a span", () => {
  it("waits for the node, then takes every attachment, member and object with it", async () => {
    const { handle, claim } = await inUse();
    await span.target(claim, "3Gi", "2Gi");
    await span.untilLayout("m1 is attached", handle, isAttached("m1"));
    await expect(span.remove(handle)).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("still mounted on node node-a"),
    });
    await span.report(handle, { ...mounted("node-a", ["m0", "2Gi"], ["m1", "1Gi"]), mounted: false });
    await span.remove(handle);
    expect(await span.claims(handle)).toEqual([]);
    await untilRead(
      "no volume is left",
      () => span.volumes(handle),
      (names) => names.length === 0,
    );
    const uid = handle.slice("fs-".length);
    const own = (await span.attachments()).filter(
      ({ metadata }) => metadata.labels?.["tidemark.dev/volume-uid"] === uid,
    );
    expect(own).toEqual([]);
    expect(await span.layout(handle)).toBeUndefined();
    expect(await cluster.client.get(FILESYSTEMS, { namespace: "shop", name: claim })).toBeUndefined();
    expect(await span.remove(handle)).toEqual({});
  });

  it("detaches before it deletes, and goes on where it was", async () => {
    const { handle } = await span.created();
    await span.publish(handle, "node-a");
    await span.untilLayout("m0 is attached", handle, isAttached("m0"));
    sidecars.detaches = false;
    await expect(span.remove(handle)).rejects.toMatchObject({ code: status.ABORTED });
    expect(await span.claims(handle)).toEqual([`${handle}-m0`]);
    sidecars.detaches = true;
    sidecars.catchUp();
    await span.remove(handle);
    expect(await span.claims(handle)).toEqual([]);
  });
});
