// Where a span's members are made, what they may hold, and what is said of what is left: topology, budget, capacity, and names that
// are never used again.
import { credentials, Metadata, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  ControllerClient,
  type CreateVolumeRequest,
  type GetCapacityResponse,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  CSI_NODES,
  CSI_STORAGE_CAPACITIES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import {
  createMemberNode,
  createZoneNode,
  MEMBER_CLASS,
  MEMBER_DRIVER,
  ZONE_KEY,
} from "../../fakes/member-sidecars.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage } from "./cluster.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached } from "./span-under-test.ts";

const BUDGET_BYTES = 40 * GIB;
let tested: SpanCluster;
beforeAll(async () => {
  tested = await startSpanCluster(BUDGET_BYTES);
  await createZoneNode(tested.cluster.client, "node-far", "b");
  for (const name of ["node-a", "node-b", "node-far"]) await createMemberNode(tested.cluster.client, name);
});
afterAll(() => tested.stop());

const claimOf = (handle: string, member: string) =>
  tested.cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, name: `${handle}-${member}` });
const selectedNode = async (handle: string, member: string) =>
  (await claimOf(handle, member))?.metadata.annotations?.["volume.kubernetes.io/selected-node"];
const isBound =
  (index: number) =>
  ({ spec }: FilesystemLayout): boolean =>
    spec.members?.[index]?.source.claim?.volumeName !== undefined;
const requestOn = (node: string) => {
  const topology = { segments: { "topology.tidemark.dev/node": node } };
  return tested.span.request({}, { accessibilityRequirements: { requisite: [topology], preferred: [topology] } });
};

/** Made for node-a, and published there. */
async function publishedToA(): Promise<{ request: CreateVolumeRequest; claim: string; handle: string }> {
  const request = requestOn("node-a");
  const claim = request.parameters["csi.storage.k8s.io/pvc/name"] ?? "";
  const handle = (await tested.span.create(request)).volume?.volumeId ?? "";
  await tested.span.publish(handle, "node-a");
  return { request, claim, handle };
}

describe("members whose class allows one zone", () => {
  const CLASS = "zoned-class";
  const inZone = (node: string): CreateVolumeRequest => {
    const request = requestOn(node);
    return { ...request, parameters: { ...request.parameters, memberStorageClassName: CLASS } };
  };
  beforeAll(async () => {
    await tested.cluster.client.create("test/class", STORAGE_CLASSES, {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: CLASS },
      provisioner: MEMBER_DRIVER,
      volumeBindingMode: "WaitForFirstConsumer",
      allowedTopologies: [{ matchLabelExpressions: [{ key: ZONE_KEY, values: ["a"] }] }],
    });
  });

  it("are not begun on a node of another one: the scheduler is asked for another node, and nothing stays", async () => {
    await expect(tested.span.create(inZone("node-far"))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining(`in ${ZONE_KEY}=a only, and node node-far is not among them`),
    });
    const layouts = (await tested.cluster.client.list(FILESYSTEM_LAYOUTS)).items;
    expect(layouts.map(({ spec }) => spec.claimRef?.name)).toEqual([]);
  });

  it("are made on a node of that zone, and can be attached where the filesystem is", async () => {
    const { volume } = await tested.span.create(inZone("node-b"));
    const handle = volume?.volumeId ?? "";
    expect(volume?.accessibleTopology).toEqual([{ segments: { [ZONE_KEY]: "a" } }]);
    await tested.span.publish(handle, "node-a");
    await tested.span.expand(handle, 3 * GIB);
    await tested.span.untilLayout("m1 is attached", handle, isAttached("m1"));
    expect([await selectedNode(handle, "m0"), await selectedNode(handle, "m1")]).toEqual(["node-b", "node-a"]);
  });
});

describe("spans whose class binds at once in one zone", () => {
  const inZone = (zone: string): CreateVolumeRequest => {
    const topology = { segments: { [ZONE_KEY]: zone } };
    return tested.span.request({}, { accessibilityRequirements: { requisite: [topology], preferred: [topology] } });
  };
  const moveTo = (zone: string) =>
    tested.cluster.client.mergePatch(
      "test/label",
      NODES,
      { name: "node-far" },
      { metadata: { labels: { [ZONE_KEY]: zone } } },
    );
  beforeAll(async () => {
    for (const name of ["node-a", "node-far"]) {
      const found = await tested.cluster.client.get(CSI_NODES, { name });
      const drivers = [...(found?.spec.drivers ?? []), { name: "span.tidemark.dev", nodeID: name }];
      await tested.cluster.client.mergePatch("test/driver", CSI_NODES, { name }, { spec: { drivers } });
    }
  });

  it("are made on a node that is there by its labels", async () => {
    const { volume } = await tested.span.create(inZone("b"));
    expect(volume?.accessibleTopology).toEqual([{ segments: { [ZONE_KEY]: "b" } }]);
    expect(await selectedNode(volume?.volumeId ?? "", "m0")).toBe("node-far");
  });

  it("are refused where no node is there", async () => {
    await expect(tested.span.create(inZone("c"))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining(`the request allows volumes in ${ZONE_KEY}=c only`),
    });
  });

  it("are refused where the members' driver made the first member elsewhere, and nothing stays", async () => {
    tested.sidecars.binds = false;
    const request = inZone("b");
    const created = tested.span.create(request).catch((error: unknown) => error);
    const claimName = request.parameters["csi.storage.k8s.io/pvc/name"];
    const layoutOf = async () =>
      (await tested.cluster.client.list(FILESYSTEM_LAYOUTS)).items.find(
        ({ spec }) => spec.claimRef?.name === claimName,
      );
    const begun = await untilRead("its layout", layoutOf, (one) => one !== undefined);
    const handle = begun?.metadata.name ?? "";
    await untilRead(
      "its member's claim",
      () => claimOf(handle, "m0"),
      (claim) => claim !== undefined,
    );
    await moveTo("a");
    tested.sidecars.resume();
    const answer = await created;
    await moveTo("b");
    expect(answer).toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining(`its volume is in ${ZONE_KEY}=a`),
    });
    await untilRead("nothing of it", layoutOf, (one) => one === undefined);
    expect(await claimOf(handle, "m0")).toBeUndefined();
  });
});

it("a span's class with a key that no driver of ours registers is named on its claims, with what to do", async () => {
  const { client } = tested.cluster;
  await client.create("test/class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "racked" },
    provisioner: "span.tidemark.dev",
    parameters: { backend: "span", memberStorageClassName: MEMBER_CLASS },
    volumeBindingMode: "WaitForFirstConsumer",
    allowedTopologies: [{ matchLabelExpressions: [{ key: "rack.example.com", values: ["7"] }] }],
  });
  await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace: "shop", name: "racked" },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: "racked",
      resources: { requests: { storage: "2Gi" } },
    },
  });
  const message = await eventMessage(client, "racked", "StorageClassInvalid", "rack.example.com");
  expect(message).toContain("move rack.example.com to allowedTopologies of the members' class");
});

describe("a member that is added later", () => {
  it("is made for the node that has the volume", async () => {
    const { volume } = await tested.span.create(requestOn("node-b"));
    const handle = volume?.volumeId ?? "";
    await tested.span.publish(handle, "node-a");
    await tested.span.expand(handle, 3 * GIB);
    await tested.span.untilLayout("m1", handle, isBound(1));
    expect([await selectedNode(handle, "m0"), await selectedNode(handle, "m1")]).toEqual(["node-b", "node-a"]);
  });

  it("is made within the first one's reach where the volume is published nowhere and its first node is gone", async () => {
    const { client } = tested.cluster;
    await createZoneNode(client, "node-gone", "b");
    const { volume } = await tested.span.create(requestOn("node-gone"));
    const handle = volume?.volumeId ?? "";
    expect(volume?.accessibleTopology).toEqual([{ segments: { [ZONE_KEY]: "b" } }]);
    await client.delete("test/node", NODES, { name: "node-gone" });
    await tested.span.expand(handle, 3 * GIB);
    await tested.span.untilLayout("m1", handle, isBound(1));
    expect(await selectedNode(handle, "m1")).toBe("node-far");
  });

  it("is neither kept nor attached where its driver has made it out of reach, and the Filesystem says so", async () => {
    const { claim, handle } = await publishedToA();
    tested.sidecars.binds = false;
    await tested.span.expand(handle, 3 * GIB);
    await untilRead(
      "its claim",
      () => claimOf(handle, "m1"),
      (one) => one !== undefined,
    );
    // A driver that does not care.
    const annotations = { "volume.kubernetes.io/selected-node": "node-far" };
    const name = { namespace: MEMBER_NAMESPACE, name: `${handle}-m1` };
    await tested.cluster.client.mergePatch("test/elsewhere", PERSISTENT_VOLUME_CLAIMS, name, {
      metadata: { annotations },
    });
    await untilRead(
      "it to be seen",
      () => claimOf(handle, "m1"),
      () => true,
    );
    tested.sidecars.binds = true;
    await untilRead(
      "it is bound",
      async () => {
        tested.sidecars.catchUp();
        return claimOf(handle, "m1");
      },
      (one) => one?.status?.phase === "Bound",
    );
    const stalled = await tested.span.untilCondition("Stalled", claim, "Stalled", ({ status: is }) => is === "True");
    expect(stalled).toMatchObject({ reason: "MemberFailed", message: expect.stringContaining(`in ${ZONE_KEY}=b`) });
    expect((await tested.span.layout(handle))?.spec.members?.[1]?.source.claim).toEqual({ name: `${handle}-m1` });
    const volume = await tested.cluster.client.get(PERSISTENT_VOLUMES, {
      name: (await claimOf(handle, "m1"))?.spec.volumeName ?? "",
    });
    expect(volume?.spec.persistentVolumeReclaimPolicy).toBe("Delete");
    const own = (await tested.span.attachments()).map(({ spec }) => spec.source.persistentVolumeName);
    expect(own).not.toContain(volume?.metadata.name);
  });

  it("narrows what CreateVolume answers when it is asked again", async () => {
    const { client } = tested.cluster;
    const { request, handle } = await publishedToA();
    await tested.span.expand(handle, 3 * GIB);
    const { spec } = await tested.span.untilLayout("m1", handle, isBound(1));
    const name = spec.members?.[1]?.source.claim?.volumeName ?? "";
    const matchExpressions = [
      { key: ZONE_KEY, operator: "In", values: ["a"] },
      { key: "rack.example.com", operator: "In", values: ["1"] },
    ];
    const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions }] } };
    // Nobody moves a volume; this one is made again where its driver says more.
    const volume = await client.get(PERSISTENT_VOLUMES, { name });
    if (volume === undefined) throw new Error(`no volume ${name}`);
    const { labels, annotations } = volume.metadata;
    await client.delete("test/volume", PERSISTENT_VOLUMES, { name });
    await client.create("test/rack", PERSISTENT_VOLUMES, {
      ...volume,
      metadata: { name, labels, annotations },
      spec: { ...volume.spec, nodeAffinity },
    });
    expect((await tested.span.create(request)).volume?.accessibleTopology).toEqual([
      { segments: { [ZONE_KEY]: "a", "rack.example.com": "1" } },
    ]);
  });
});

it("an extend whose member turns out to be wiped already is made up for by another one", async () => {
  const { claim, handle } = await publishedToA();
  const present = (name: string, size: string) => ({ name, size, state: "Present" as const });
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi")] });
  await tested.span.target(claim, "3Gi", "2Gi");
  await tested.span.untilLayout("m1", handle, isBound(1));
  const both = [present("m0", "2Gi"), present("m1", "1Gi")];
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: both });
  await tested.span.target(claim, "2Gi", "3Gi");
  await tested.span.untilLayout("m1 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  await tested.span.target(claim, "3Gi", "2Gi");
  const back = await tested.span.untilLayout(
    "m1 is to stay",
    handle,
    ({ spec }) => spec.members?.[1]?.state === "Present",
  );
  expect(back.spec.target?.size).toBe("3Gi");
  // The node had finished by then.
  const gone = { name: "m1", size: "1Gi", state: "Removed" as const };
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi"), gone] });
  const after = await tested.span.untilLayout(
    "a member in its place",
    handle,
    ({ spec }) =>
      spec.members?.some(({ name }) => name === "m2") === true && spec.members.every(({ name }) => name !== "m1"),
  );
  expect(after.spec).toMatchObject({ target: { size: "3Gi" }, members: [{ name: "m0" }, { name: "m2", size: "1Gi" }] });
});

it("a member that left before, and that a layout from a backup names, goes from the layout, and an Event says when it left", async () => {
  const { claim, handle } = await publishedToA();
  const present = (name: string, size: string) => ({ name, size, state: "Present" as const });
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi")] });
  await tested.span.target(claim, "3Gi", "2Gi");
  await tested.span.untilLayout("m1", handle, isBound(1));
  const both = [present("m0", "2Gi"), present("m1", "1Gi")];
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: both });
  // The filesystem is whole without it, says its node.
  const gone = { name: "m1", size: "1Gi", state: "Removed" as const };
  const [at, left] = ["2020-01-01T00:00:00Z", "2020-01-01T00:00:07Z"];
  const shrink = { kind: "Shrink", from: "3Gi", to: "2Gi", epoch: 9, decidedAt: at, startedAt: at } as const;
  const lastOperation = { ...shrink, outcome: "Succeeded", reached: "2Gi", endedAt: left } as const;
  const members = [present("m0", "2Gi"), gone];
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members, lastOperation });
  await tested.span.untilLayout(
    "no m1",
    handle,
    ({ spec }) => spec.members?.some(({ name }) => name === "m1") === false,
  );
  await untilRead(
    "nothing of m1 is left",
    () => claimOf(handle, "m1"),
    (one) => one === undefined,
  );
  const message = await eventMessage(tested.cluster.client, claim, "MemberLeft", "member m1");
  expect(message).toContain("has left the filesystem: the layout is corrected");
});

it("the name of a member that has left is not used again by a layout that is made again", async () => {
  const { handle } = await provisionedSpan(tested.cluster, tested.span, "counted");
  const present = (name: string, size: string) => ({ name, size, state: "Present" as const });
  const members = [present("m0", "2Gi"), present("m1", "1Gi")];
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi")] });
  await tested.span.target("counted", "3Gi", "2Gi");
  await tested.span.untilLayout("m1", handle, isBound(1));
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members });
  await tested.span.target("counted", "2Gi", "3Gi");
  await tested.span.untilLayout("m1 is to go", handle, ({ spec }) => spec.members?.[1]?.state === "Removed");
  const gone = { name: "m1", size: "1Gi", state: "Removed" as const };
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi"), gone] });
  const before = await tested.span.untilLayout("m1 has left", handle, ({ spec }) => spec.members?.length === 1);
  await untilRead(
    "nothing of m1 is left",
    () => tested.span.volumes(handle),
    (names) => names.length === 1,
  );
  await tested.cluster.client.delete("test/lose", FILESYSTEM_LAYOUTS, { name: handle });
  await tested.span.untilLayout(
    "it is made again",
    handle,
    ({ metadata, spec }) => metadata.uid !== before.metadata.uid && spec.members !== undefined,
  );
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: [present("m0", "2Gi")] });
  await tested.span.target("counted", "3Gi", "2Gi");
  const again = await tested.span.untilLayout("a member more", handle, ({ spec }) => spec.members?.length === 2);
  expect(again.spec.members?.map(({ name }) => name)).toEqual(["m0", "m2"]);
});

it("a namespace without a quota has the default budget of each class, and no more", async () => {
  const held = async (namespace: string): Promise<number> =>
    (await tested.cluster.client.list(FILESYSTEM_LAYOUTS)).items
      .filter(({ spec }) => spec.claimRef?.namespace === namespace)
      .flatMap(({ spec }) => spec.members ?? []).length;
  const request = (bytes: number) =>
    tested.span.request(
      { "csi.storage.k8s.io/pvc/namespace": "thief" },
      { capacityRange: { requiredBytes: bytes, limitBytes: 0 } },
    );
  const first = request(30 * GIB);
  const handle = (await tested.span.create(first)).volume?.volumeId ?? "";
  await expect(tested.span.create(request(11 * GIB))).rejects.toMatchObject({
    code: status.RESOURCE_EXHAUSTED,
    details: expect.stringContaining(
      "QuotaExceeded: the default budget (--default-namespace-budget) allows 40Gi of class member-class; others use 30Gi",
    ),
  });
  expect(await held("thief")).toBe(1);
  await expect(tested.span.expand(handle, 41 * GIB)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  await tested.span.create(request(10 * GIB));
  expect(await held("shop")).toBeGreaterThan(1);
});

describe("GetCapacity of spans", () => {
  let controller: ControllerClient;
  beforeAll(async () => {
    controller = new ControllerClient(`unix://${tested.cluster.spanSocket}`, credentials.createInsecure());
    const published = (name: string, zone: string | undefined, capacity: string, maximumVolumeSize?: string) =>
      tested.cluster.client.create("test/capacity", CSI_STORAGE_CAPACITIES, {
        apiVersion: "storage.k8s.io/v1",
        kind: "CSIStorageCapacity",
        metadata: { namespace: "shop", name },
        storageClassName: MEMBER_CLASS,
        ...(zone === undefined ? {} : { nodeTopology: { matchLabels: { [ZONE_KEY]: zone } } }),
        capacity,
        ...(maximumVolumeSize === undefined ? {} : { maximumVolumeSize }),
      });
    await published("near", "a", "100Gi", "10Gi");
    await published("far", "b", "5Gi");
    await published("nowhere", undefined, "900Gi");
  });
  afterAll(() => controller.close());

  function capacity(
    parameters: Record<string, string>,
    segments: Record<string, string> = {},
  ): Promise<GetCapacityResponse> {
    return new Promise((resolve, reject) => {
      const request = { parameters, volumeCapabilities: [], accessibleTopology: { segments } };
      controller.getCapacity(request, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
    });
  }
  const span = { backend: "span", memberStorageClassName: MEMBER_CLASS };

  it.each<[string, Record<string, string>, number, number]>([
    ["everywhere", {}, 105, 10],
    ["of a zone", { [ZONE_KEY]: "a" }, 100, 10],
    ["of a node, by its labels", { "topology.tidemark.dev/node": "node-far" }, 5, 5],
    ["where nothing is published", { [ZONE_KEY]: "c" }, 0, 0],
  ])("is what the members' driver publishes %s", async (_what, segments, available, largest) => {
    expect(await capacity(span, segments)).toMatchObject({
      availableCapacity: available * GIB,
      maximumVolumeSize: largest * GIB,
    });
  });

  it("is nothing of no class, since no volume is made without one", async () => {
    expect((await capacity({})).availableCapacity).toBe(0);
  });

  it.each<[string, Record<string, string>, status, string]>([
    ["a class that is not there", { ...span, memberStorageClassName: "nowhere" }, status.INVALID_ARGUMENT, "nowhere"],
    [
      "an unknown parameter",
      { ...span, speed: "high" },
      status.INVALID_ARGUMENT,
      "unknown StorageClass parameters speed",
    ],
    [
      "a class whose driver publishes nothing",
      { ...span, memberStorageClassName: "tidemark-loop" },
      status.UNAVAILABLE,
      "publishes no CSIStorageCapacity",
    ],
  ])("is refused for %s", async (_what, parameters, code, text) => {
    await expect(capacity(parameters)).rejects.toMatchObject({ code, details: expect.stringContaining(text) });
  });
});
