import { randomUUID } from "node:crypto";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import {
  ControllerClient,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  type GetCapacityResponse,
  type ValidateVolumeCapabilitiesResponse,
  type VolumeCapability,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { fsidOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  STORAGE_CLASSES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { GIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { createCacheWait } from "../../../src/operator/gather/cache-waits.ts";
import { createVolumeCaches } from "../../../src/operator/gather/volume-caches.ts";
import { makeLogicalVolume } from "../../../src/operator/lvm/make-logical-volume.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildClaim } from "../../builders/claim.ts";
import {
  blockCapability,
  buildCreateVolumeRequest,
  mountCapability,
  PARAMETERS,
} from "../../builders/create-volume-request.ts";
import { type FakeLvmNode, startFakeLvmNode } from "../../fakes/fake-lvm-node.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage, NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

const namespace = "default";
const log = createLogger("test", "silent");

let cluster: TestCluster;
let node: FakeLvmNode;
let controller: ControllerClient;
beforeAll(async () => {
  cluster = await startTestCluster();
  await cluster.client.create("test/namespace", NAMESPACES, {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "shop" },
  });
  node = await startFakeLvmNode(cluster.client, NODE_NAME, { ssd: "100Gi", hdd: "50Gi" }, log);
  for (const [name, parameters] of [
    ["lvm", {}],
    ["lvm-hdd", { deviceClass: "hdd" }],
  ] as const)
    await cluster.client.create("test/class", STORAGE_CLASSES, {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name },
      provisioner: "local.tidemark.dev",
      parameters: { backend: "lvm", ...parameters },
    });
  controller = new ControllerClient(`unix://${cluster.operatorSocket}`, credentials.createInsecure());
});
afterAll(async () => {
  controller.close();
  await node.stop();
  await cluster.stop();
});
beforeEach(() => {
  node.silent = false;
  node.failWith = undefined;
});

const readLayout = (name: string) => cluster.client.get(FILESYSTEM_LAYOUTS, { name });
const readLogicalVolume = (name: string) => cluster.client.get(LOGICAL_VOLUMES, { name });
const readClaim = (name: string) => () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });

async function provision(name: string, storageClassName = "lvm"): Promise<string> {
  const claim = await cluster.client.create(
    "test/claim",
    PERSISTENT_VOLUME_CLAIMS,
    buildClaim({ name, storageClassName, request: "5Gi" }),
  );
  await untilRead(`${name} is bound`, readClaim(name), (one) => one?.status?.phase === "Bound");
  return claim.metadata.uid ?? "";
}

function create(request: CreateVolumeRequest): Promise<CreateVolumeResponse> {
  return new Promise((resolve, reject) => {
    controller.createVolume(request, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function remove(volumeId: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    controller.deleteVolume({ volumeId, secrets: {} }, new Metadata(), (error, response) =>
      error ? reject(error) : resolve(response),
    );
  });
}

/** A name that carries no claim's UID. */
function byHand(claim: string, parameters: Record<string, string> = {}, fields: Partial<CreateVolumeRequest> = {}) {
  return buildCreateVolumeRequest({
    name: `by-hand-${randomUUID()}`,
    parameters: { ...PARAMETERS, backend: "lvm", "csi.storage.k8s.io/pvc/name": claim, ...parameters },
    capacityRange: { requiredBytes: GIB, limitBytes: 0 },
    ...fields,
  });
}

function validate(volumeId: string, volumeCapability: VolumeCapability): Promise<ValidateVolumeCapabilitiesResponse> {
  const request = { volumeId, volumeCapabilities: [volumeCapability], volumeContext: {}, parameters: {}, secrets: {} };
  return new Promise((resolve, reject) => {
    controller.validateVolumeCapabilities({ ...request, mutableParameters: {} }, new Metadata(), (error, response) =>
      error ? reject(error) : resolve(response),
    );
  });
}

/** The LogicalVolume that a call has begun, by the claim that it is for. */
async function begun(claim: string) {
  const read = async () =>
    (await cluster.client.list(LOGICAL_VOLUMES)).items.find((o) => o.spec.claimRef?.name === claim);
  const found = await untilRead(`a LogicalVolume for ${claim}`, read, (one) => one !== undefined);
  return found?.metadata.name ?? "";
}

describe("a raw block volume", () => {
  it("is one by every record, and stays one", async () => {
    const request = byHand("raw", {}, { volumeCapabilities: [blockCapability()] });
    const { volume } = await create(request);
    const handle = volume?.volumeId ?? "";
    expect(volume?.volumeContext).toMatchObject({ "tidemark.dev/volume-mode": "Block" });
    expect(volume?.volumeContext["tidemark.dev/fs-type"]).toBeUndefined();
    expect((await readLogicalVolume(handle))?.spec.volumeMode).toBe("Block");
    const layout = await readLayout(handle);
    expect(layout?.spec).toMatchObject({ backend: "lvm", volumeMode: "Block" });
    expect(layout?.spec.fsType).toBeUndefined();
    expect((await create(request)).volume).toEqual(volume);
    await expect(create({ ...request, volumeCapabilities: [mountCapability()] })).rejects.toMatchObject({
      code: status.ALREADY_EXISTS,
      details: expect.stringContaining("volumeMode is Block, asked for is Filesystem"),
    });
    expect((await validate(handle, blockCapability())).confirmed).toBeDefined();
    expect(await validate(handle, mountCapability())).toMatchObject({
      confirmed: undefined,
      message: expect.stringContaining("made with volumeMode Block, not Filesystem"),
    });
    await remove(handle);
  });
});

describe("a claim of the backend lvm", () => {
  it("is bound to a volume of exactly its request, which the node has made once and which every record names", async () => {
    const uid = await provision("data", "lvm-hdd");
    const handle = `fs-${uid}`;
    const logicalVolume = await readLogicalVolume(handle);
    const volumeID = logicalVolume?.metadata.uid ?? "";
    expect(logicalVolume?.spec).toEqual({
      nodeName: NODE_NAME,
      deviceClass: "hdd",
      size: "5Gi",
      claimRef: { namespace, name: "data", uid },
    });
    expect(node.made.filter((one) => one === volumeID)).toHaveLength(1);
    const volume = await cluster.client.get(PERSISTENT_VOLUMES, { name: `pvc-${uid}` });
    expect(volume?.spec.capacity?.storage).toBe("5Gi");
    expect(volume?.spec.csi?.volumeAttributes).toEqual({
      "tidemark.dev/volume-uid": uid,
      "tidemark.dev/fsid": fsidOf(uid),
      "tidemark.dev/fs-type": "btrfs",
      "tidemark.dev/backend": "lvm",
      "tidemark.dev/requested-size": "5Gi",
      "tidemark.dev/device-class": "hdd",
      "tidemark.dev/logical-volume": volumeID,
    });
    expect((await readLayout(handle))?.spec).toEqual({
      claimRef: { namespace, name: "data", uid },
      volumeUID: uid,
      backend: "lvm",
      fsType: "btrfs",
      nodeName: NODE_NAME,
      members: [
        {
          name: "m0",
          size: "5Gi",
          state: "Present",
          source: { logicalVolume: { name: handle, volumeID, deviceClass: "hdd" } },
        },
      ],
    });
  });

  it("gets the node's default class where its StorageClass names none", async () => {
    const uid = await provision("of-default");
    expect((await readLogicalVolume(`fs-${uid}`))?.spec.deviceClass).toBe("ssd");
    const volume = await cluster.client.get(PERSISTENT_VOLUMES, { name: `pvc-${uid}` });
    expect(volume?.spec.csi?.volumeAttributes).toMatchObject({ "tidemark.dev/device-class": "ssd" });
  });

  it("takes all of it with it when it is deleted", async () => {
    const uid = await provision("gone");
    const volumeID = (await readLogicalVolume(`fs-${uid}`))?.metadata.uid ?? "";
    expect(node.volumes.has(volumeID)).toBe(true);
    await cluster.client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "gone" });
    await untilRead(
      "its volume is gone",
      () => cluster.client.get(PERSISTENT_VOLUMES, { name: `pvc-${uid}` }),
      (one) => one === undefined,
    );
    expect(await readLayout(`fs-${uid}`)).toBeUndefined();
    expect(await readLogicalVolume(`fs-${uid}`)).toBeUndefined();
    expect(await cluster.client.get(FILESYSTEMS, { namespace, name: "gone" })).toBeUndefined();
    await untilRead(
      "the node has removed it",
      async () => node.volumes.has(volumeID),
      (has) => !has,
    );
  });
});

it("a claim of a class that no node has is told so, although nobody provisions it", async () => {
  const name = "lvm-nvme";
  await cluster.client.create("test/class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner: "local.tidemark.dev",
    parameters: { backend: "lvm", deviceClass: "nvme" },
  });
  const claim = buildClaim({ name: "impossible", storageClassName: name });
  await cluster.client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
  await eventMessage(
    cluster.client,
    "impossible",
    "StorageClassInvalid",
    'no node (1 checked) has the device class "nvme"',
  );
  await cluster.client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "impossible" });
});

describe("CreateVolume of the backend lvm", () => {
  it("repeated, answers the same and makes nothing", async () => {
    const request = byHand("repeated");
    const first = await create(request);
    const made = node.made.length;
    expect(await create(request)).toEqual(first);
    expect(node.made).toHaveLength(made);
  });

  it("waits for the node, and is answered when the node has made it", async () => {
    node.silent = true;
    const answer = create(byHand("slow"));
    const handle = await begun("slow");
    expect(await readLayout(handle)).toBeUndefined();
    node.silent = false;
    node.look();
    expect((await answer).volume?.volumeId).toBe(handle);
  });

  it("goes on from what an operator left that was killed while it waited: one volume, and no other", async () => {
    node.silent = true;
    const request = byHand("killed");
    const lost = create(request).catch((error: ServiceError) => error.code);
    const handle = await begun("killed");
    await cluster.stopOperator();
    await lost;
    node.silent = false;
    node.look();
    const made = await untilRead(
      "the node made it",
      () => readLogicalVolume(handle),
      (one) => !!one?.status?.volumeID,
    );
    await cluster.startOperator();
    const { volume } = await create(request);
    expect(volume?.volumeContext["tidemark.dev/logical-volume"]).toBe(made?.metadata.uid);
    expect(node.made.filter((one) => one === made?.metadata.uid)).toHaveLength(1);
  });

  it("that the node has no room for is RESOURCE_EXHAUSTED in LVM's words, and leaves nothing behind", async () => {
    node.failWith = { code: status.RESOURCE_EXHAUSTED, message: "Volume group tidemark has insufficient free space" };
    const refused = create(byHand("full"));
    await expect(refused).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining("insufficient free space"),
    });
    const left = (await cluster.client.list(LOGICAL_VOLUMES)).items.filter((o) => o.spec.claimRef?.name === "full");
    expect(left).toEqual([]);
  });

  it("is tried again by the node after a failure that may pass", async () => {
    node.failWith = { code: status.UNAVAILABLE, message: "lvmd does not answer" };
    const answer = create(byHand("passing"));
    const handle = await begun("passing");
    await untilRead(
      "it is said",
      () => readLogicalVolume(handle),
      (one) => one?.status?.code === status.UNAVAILABLE,
    );
    node.failWith = undefined;
    node.look();
    expect((await answer).volume?.volumeId).toBe(handle);
  });

  it.each([
    [
      "of a class that the node does not have",
      { deviceClass: "nvme" },
      'has no device class "nvme" of backend lvm; it has: ssd, hdd',
    ],
    ["of more than the class has", { deviceClass: "hdd" }, "left for members"],
  ])("%s is RESOURCE_EXHAUSTED before anything is made", async (_what, parameters, text) => {
    const request = byHand("nowhere", parameters, { capacityRange: { requiredBytes: 60 * GIB, limitBytes: 0 } });
    await expect(create(request)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringContaining(text),
    });
    expect(
      (await cluster.client.list(LOGICAL_VOLUMES)).items.filter((o) => o.spec.claimRef?.name === "nowhere"),
    ).toEqual([]);
  });

  it("without topology takes the node that has the class", async () => {
    const { volume } = await create(
      byHand("anywhere", { deviceClass: "hdd" }, { accessibilityRequirements: undefined }),
    );
    expect((await readLogicalVolume(volume?.volumeId ?? ""))?.spec.nodeName).toBe(NODE_NAME);
  });

  it("of the same name but another class is ALREADY_EXISTS", async () => {
    const request = byHand("differs", { deviceClass: "ssd" });
    await create(request);
    const other = create({ ...request, parameters: { ...request.parameters, deviceClass: "hdd" } });
    await expect(other).rejects.toMatchObject({
      code: status.ALREADY_EXISTS,
      details: expect.stringContaining("device class is ssd, asked for is hdd"),
    });
  });

  it("on another node than it was begun on takes that one back first", async () => {
    const request = byHand("moved");
    node.silent = true;
    const lost = create(request).catch((error: ServiceError) => error.code);
    const handle = await begun("moved");
    await cluster.stopOperator();
    await lost;
    await cluster.startOperator();
    node.silent = false;
    node.look();
    const elsewhere = { segments: { "topology.tidemark.dev/node": "node-2" } };
    const there = await startFakeLvmNode(cluster.client, "node-2", { ssd: "10Gi" }, log);
    try {
      const asked = { ...request, accessibilityRequirements: { requisite: [elsewhere], preferred: [elsewhere] } };
      await expect(create(asked)).rejects.toMatchObject({ code: status.ABORTED });
      expect(await readLogicalVolume(handle)).toBeUndefined();
      const { volume } = await create(asked);
      expect(volume?.accessibleTopology).toEqual([elsewhere]);
      expect(there.made).toEqual([(await readLogicalVolume(handle))?.metadata.uid]);
    } finally {
      await there.stop();
    }
  });

  it("for a claim that is gone takes back what was begun for it", async () => {
    const claim = await cluster.client.create(
      "test/claim",
      PERSISTENT_VOLUME_CLAIMS,
      buildClaim({ name: "fleeting", namespace: "shop", storageClassName: "by-hand" }),
    );
    const request = { ...byHand("fleeting"), name: `pvc-${claim.metadata.uid}` };
    node.silent = true;
    const lost = create(request).catch((error: ServiceError) => error.code);
    const handle = await begun("fleeting");
    await cluster.stopOperator();
    await lost;
    await cluster.startOperator();
    node.silent = false;
    node.look();
    await untilRead(
      "the node made it",
      () => readLogicalVolume(handle),
      (one) => !!one?.status?.volumeID,
    );
    await cluster.client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name: "fleeting" });
    await expect(create(request)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    expect(await readLogicalVolume(handle)).toBeUndefined();
    expect(await readLayout(handle)).toBeUndefined();
  });

  it("is ABORTED with what the node says where it takes too long; nothing is taken back, and nothing is asked again and again", async () => {
    node.failWith = { code: status.UNAVAILABLE, message: "lvmd does not answer" };
    const caches = createVolumeCaches(cluster.client, log);
    caches.start();
    await caches.synced;
    const { logicalVolumes } = caches;
    const logicalVolumeChange = createCacheWait(logicalVolumes);
    const { client, calls } = interposed(
      cluster.client,
      () => false,
      async () => {},
    );
    const making = { client, logicalVolumes, logicalVolumeChange, makingWaitLimitMs: 500 };
    const spec = { nodeName: NODE_NAME, deviceClass: "ssd", size: "1Gi" };
    const name = `fs-${randomUUID()}`;
    try {
      await expect(makeLogicalVolume(making, name, { annotations: {}, spec })).rejects.toMatchObject({
        code: "ABORTED",
        message: expect.stringContaining("lvmd does not answer"),
      });
      expect(await readLogicalVolume(name)).toBeDefined();
      // However long it takes.
      expect(calls).toEqual(["create logicalvolumes"]);
    } finally {
      await caches.stop();
    }
  });
});

describe("DeleteVolume of the backend lvm", () => {
  it("of which only the LogicalVolume is left removes what the node has of it", async () => {
    const { volume } = await create(byHand("only"));
    const handle = volume?.volumeId ?? "";
    const volumeID = (await readLogicalVolume(handle))?.metadata.uid ?? "";
    await cluster.stopOperator();
    await cluster.client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: handle });
    await cluster.startOperator();
    await remove(handle);
    expect(node.volumes.has(volumeID)).toBe(false);
    expect(await readLogicalVolume(handle)).toBeUndefined();
    expect(await readLayout(handle)).toBeUndefined();
    await remove(handle);
  });
});

describe("objects of a lvm volume that somebody has deleted", () => {
  it("come back, each from the others' records, and the node makes nothing", async () => {
    const uid = await provision("kept");
    const handle = `fs-${uid}`;
    const before = { layout: await readLayout(handle), logicalVolume: await readLogicalVolume(handle) };
    const volumeID = before.logicalVolume?.metadata.uid;
    const made = [...node.made];

    await cluster.client.delete("test/logical-volume", LOGICAL_VOLUMES, { name: handle });
    const again = await untilRead(
      "it is made again",
      () => readLogicalVolume(handle),
      (one) => !!one?.status?.volumeID,
    );
    expect(again?.metadata.uid).not.toBe(volumeID);
    expect(again?.spec).toMatchObject({ volumeID, nodeName: NODE_NAME, deviceClass: "ssd" });
    expect(again?.status).toMatchObject({ volumeID, currentSize: "5Gi" });

    await cluster.client.delete("test/logical-volume", LOGICAL_VOLUMES, { name: handle });
    await cluster.client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: handle });
    const isOther = (uidNow: string | undefined, uidBefore: string | undefined): boolean =>
      uidNow !== undefined && uidNow !== uidBefore;
    const layout = await untilRead(
      "a new layout",
      () => readLayout(handle),
      (one) => isOther(one?.metadata.uid, before.layout?.metadata.uid) && one?.spec.backend !== undefined,
    );
    const { size: _asOrdered, ...member } = before.layout?.spec.members?.[0] ?? {};
    expect(layout?.spec).toEqual({ ...before.layout?.spec, members: [member] });
    await untilRead(
      "a new LogicalVolume",
      () => readLogicalVolume(handle),
      (one) => isOther(one?.metadata.uid, again?.metadata.uid) && one?.status?.volumeID === volumeID,
    );
    expect(node.made).toEqual(made);
    await eventMessage(cluster.client, "kept", "Rebuilt", "LogicalVolume");
  });
});

describe("GetCapacity of the backend lvm", () => {
  const ask = (parameters: Record<string, string>) =>
    new Promise<GetCapacityResponse>((resolve, reject) => {
      const request = { volumeCapabilities: [], parameters, accessibleTopology: undefined };
      controller.getCapacity(request, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
    });

  it("is that of the class, or of the node's default one, and 0 of a class that there is not", async () => {
    node.freeBytes.set("ssd", parseQuantity("70Gi"));
    await node.publish();
    expect(await ask({ backend: "lvm" })).toMatchObject({ availableCapacity: 70 * GIB, maximumVolumeSize: 70 * GIB });
    const ofHdd = (await ask({ backend: "lvm", deviceClass: "hdd" })).availableCapacity;
    expect(ofHdd).toBeLessThan(51 * GIB);
    expect(await ask({ backend: "lvm", deviceClass: "nvme" })).toMatchObject({ availableCapacity: 0 });
  });
});
