// Snapshots and clones of the backend lvm by CSI, on an operator of its own process, with a node that has no LVM.
import { randomUUID } from "node:crypto";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import {
  ControllerClient,
  type ControllerGetCapabilitiesResponse,
  type CreateSnapshotRequest,
  type CreateSnapshotResponse,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  type DeleteSnapshotResponse,
  ControllerServiceCapability_RPC_Type as Rpc,
  type VolumeContentSource,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../../src/contracts/kinds/logical-volume.ts";
import { NODES } from "../../../src/contracts/kubernetes/resources.ts";
import { TOPOLOGY_NODE } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { deleteSnapshot } from "../../../src/operator/csi/snapshots.ts";
import { createCacheWait } from "../../../src/operator/gather/cache-waits.ts";
import { createReflector } from "../../../src/platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import {
  blockCapability,
  buildCreateVolumeRequest,
  mountCapability,
  PARAMETERS,
} from "../../builders/create-volume-request.ts";
import { type FakeLvmNode, startFakeLvmNode } from "../../fakes/fake-lvm-node.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

const log = createLogger("test", "silent");
const NO_EVENTS = { record: () => undefined, flush: async () => undefined };

let cluster: TestCluster;
let node: FakeLvmNode;
let controller: ControllerClient;
beforeAll(async () => {
  cluster = await startTestCluster();
  node = await startFakeLvmNode(cluster.client, NODE_NAME, { thick: "100Gi", thin: "100Gi", "thin-too": "100Gi" }, log);
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

type Call<Request, Response> = (
  request: Request,
  metadata: Metadata,
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown;

function answer<Request, Response>(call: Call<Request, Response>, request: Request): Promise<Response> {
  return new Promise((resolve, reject) => {
    call.call(controller, request, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
  });
}

const create = (request: CreateVolumeRequest) =>
  answer<CreateVolumeRequest, CreateVolumeResponse>(controller.createVolume, request);
const snapshot = (sourceVolumeId: string, changes: Partial<CreateSnapshotRequest> = {}) =>
  answer<CreateSnapshotRequest, CreateSnapshotResponse>(controller.createSnapshot, {
    sourceVolumeId,
    name: `snapshot-${randomUUID()}`,
    secrets: {},
    parameters: {},
    ...changes,
  });
const remove = (snapshotId: string) =>
  answer<{ snapshotId: string; secrets: Record<string, string> }, DeleteSnapshotResponse>(controller.deleteSnapshot, {
    snapshotId,
    secrets: {},
  });
const removeVolume = (volumeId: string) =>
  answer<{ volumeId: string; secrets: Record<string, string> }, object>(controller.deleteVolume, {
    volumeId,
    secrets: {},
  });

const ofSnapshot = (snapshotId: string): VolumeContentSource => ({
  type: { $case: "snapshot", value: { snapshotId } },
});
const ofVolume = (volumeId: string): VolumeContentSource => ({ type: { $case: "volume", value: { volumeId } } });

function order(fields: Partial<CreateVolumeRequest> = {}, parameters: Record<string, string> = {}) {
  return buildCreateVolumeRequest({
    name: `by-hand-${randomUUID()}`,
    parameters: {
      ...PARAMETERS,
      backend: "lvm",
      deviceClass: "thin",
      "csi.storage.k8s.io/pvc/namespace": "default",
      "csi.storage.k8s.io/pvc/name": `of-${randomUUID()}`,
      ...parameters,
    },
    capacityRange: { requiredBytes: GIB, limitBytes: 0 },
    ...fields,
  });
}

const readLogicalVolume = (name: string) => cluster.client.get(LOGICAL_VOLUMES, { name });

async function makeVolume(parameters: Record<string, string> = {}): Promise<string> {
  return (await create(order({}, parameters))).volume?.volumeId ?? "";
}

async function makeSnapshot(source: string): Promise<string> {
  return (await snapshot(source)).snapshot?.snapshotId ?? "";
}

describe("CreateSnapshot", () => {
  it("makes a read-only LogicalVolume of the source on its node, and tells what came of it", async () => {
    const source = await makeVolume();
    const name = `snapshot-${randomUUID()}`;
    const { snapshot: made } = await snapshot(source, { name });
    const logicalVolume = await readLogicalVolume(made?.snapshotId ?? "");
    expect(logicalVolume?.metadata.name).toBe(name.replace("snapshot-", "snap-"));
    expect(logicalVolume?.spec).toMatchObject({
      nodeName: NODE_NAME,
      deviceClass: "thin",
      size: "1Gi",
      source,
      accessType: "ro",
      claimRef: (await readLogicalVolume(source))?.spec.claimRef,
    });
    expect(made).toEqual({
      snapshotId: logicalVolume?.metadata.name,
      sourceVolumeId: source,
      sizeBytes: GIB,
      creationTime: new Date(logicalVolume?.metadata.creationTimestamp ?? ""),
      readyToUse: true,
      groupSnapshotId: "",
    });
    expect(node.volumes.get(logicalVolume?.metadata.uid ?? "")).toBe(GIB);
  });

  it("repeated answers the same and makes nothing, even with the source gone", async () => {
    const source = await makeVolume();
    const name = `snapshot-${randomUUID()}`;
    const first = await snapshot(source, { name });
    const made = node.made.length;
    expect(await snapshot(source, { name })).toEqual(first);
    await removeVolume(source);
    expect(await snapshot(source, { name })).toEqual(first);
    expect(node.made).toHaveLength(made);
  });

  it("of the same name and another source is ALREADY_EXISTS", async () => {
    const name = `snapshot-${randomUUID()}`;
    await snapshot(await makeVolume(), { name });
    await expect(snapshot(await makeVolume(), { name })).rejects.toMatchObject({ code: status.ALREADY_EXISTS });
  });

  it("goes on from what an operator left that was killed while it waited", async () => {
    const source = await makeVolume();
    const name = `snapshot-${randomUUID()}`;
    node.silent = true;
    const lost = snapshot(source, { name }).catch((error: ServiceError) => error.code);
    const snapshotId = name.replace("snapshot-", "snap-");
    await untilRead(
      "it is begun",
      () => readLogicalVolume(snapshotId),
      (one) => one !== undefined,
    );
    await cluster.stopOperator();
    await lost;
    node.silent = false;
    node.look();
    await cluster.startOperator();
    expect((await snapshot(source, { name })).snapshot?.snapshotId).toBe(snapshotId);
    const uid = (await readLogicalVolume(snapshotId))?.metadata.uid;
    expect(node.made.filter((one) => one === uid)).toHaveLength(1);
  });

  it.each<[string, () => Promise<string>, Partial<CreateSnapshotRequest>, status, string]>([
    ["of a thick volume", () => makeVolume({ deviceClass: "thick" }), {}, status.FAILED_PRECONDITION, "is thick"],
    ["of a loop volume", makeLoop, {}, status.FAILED_PRECONDITION, "of the backend loop"],
    ["of no volume", async () => `fs-${randomUUID()}`, {}, status.NOT_FOUND, "no FilesystemLayout"],
    ["of an id that is no handle", async () => "../etc", {}, status.NOT_FOUND, "not a volume handle"],
    ["without a source", async () => "", {}, status.INVALID_ARGUMENT, "missing"],
    ["without a name", makeVolume, { name: "" }, status.INVALID_ARGUMENT, "no name"],
    ["with a parameter", makeVolume, { parameters: { x: "y" } }, status.INVALID_ARGUMENT, "no parameters here: x"],
  ])("%s is refused before anything is made", async (_what, source, changes, code, text) => {
    const sourceId = await source();
    const made = node.made.length;
    await expect(snapshot(sourceId, changes)).rejects.toMatchObject({ code, details: expect.stringContaining(text) });
    expect(node.made).toHaveLength(made);
    expect((await cluster.client.list(LOGICAL_VOLUMES)).items.filter((one) => one.spec.source === sourceId)).toEqual(
      [],
    );
  });

  it("that the node refuses for good leaves nothing behind", async () => {
    const source = await makeVolume();
    node.failWith = { code: status.UNIMPLEMENTED, message: "device class is not thin" };
    await expect(snapshot(source)).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("not thin"),
    });
    expect((await cluster.client.list(LOGICAL_VOLUMES)).items.filter((one) => one.spec.source === source)).toEqual([]);
  });
});

async function makeLoop(): Promise<string> {
  const { deviceClass: _lvm, ...rest } = order().parameters;
  return (await create(order({ parameters: { ...rest, backend: "loop" } }))).volume?.volumeId ?? "";
}

describe("DeleteSnapshot", () => {
  it("has the node remove it first, then goes, and is OK again", async () => {
    const snapshotId = await makeSnapshot(await makeVolume());
    const uid = (await readLogicalVolume(snapshotId))?.metadata.uid ?? "";
    expect(node.volumes.has(uid)).toBe(true);
    await remove(snapshotId);
    expect(node.volumes.has(uid)).toBe(false);
    expect(await readLogicalVolume(snapshotId)).toBeUndefined();
    await remove(snapshotId);
  });

  it("waits for the node's word, and nothing is made of what is being deleted", async () => {
    const source = await makeVolume();
    const snapshotId = await makeSnapshot(source);
    node.silent = true;
    await expect(remove(snapshotId)).rejects.toMatchObject({ code: status.ABORTED });
    expect((await readLogicalVolume(snapshotId))?.spec.state).toBe("Removed");
    const name = snapshotId.replace("snap-", "snapshot-");
    await expect(snapshot(source, { name })).rejects.toMatchObject({ code: status.ABORTED });
    const copy = create(order({ volumeContentSource: ofSnapshot(snapshotId) }));
    await expect(copy).rejects.toMatchObject({ code: status.NOT_FOUND });
    node.silent = false;
    node.look();
    await remove(snapshotId);
    expect(await readLogicalVolume(snapshotId)).toBeUndefined();
  });

  it("does not wait for a word that the cache has shown since the snapshot was read", async () => {
    const snapshotId = await makeSnapshot(await makeVolume());
    node.silent = true;
    await expect(remove(snapshotId)).rejects.toMatchObject({ code: status.ABORTED });
    const logicalVolumes = createReflector({ client: cluster.client, resource: LOGICAL_VOLUMES, log });
    const logicalVolumeChange = createCacheWait(logicalVolumes);
    logicalVolumes.start();
    await logicalVolumes.synced;
    // The node speaks between the two reads of DeleteSnapshot.
    const client: KubeClient = {
      ...cluster.client,
      get: async (resource, reference) => {
        if (resource.kind === "Node") {
          node.silent = false;
          node.look();
          const state = async () => logicalVolumes.store.get(snapshotId)?.status?.state;
          await untilRead("the cache to show it", state, (shown) => shown === "Removed");
        }
        return cluster.client.get(resource, reference);
      },
    };
    const deleting = { client, logicalVolumes, logicalVolumeChange, events: NO_EVENTS, removalWaitLimitMs: 5_000 };
    const answered = await deleteSnapshot(deleting, snapshotId).finally(() => logicalVolumes.stop());
    expect(answered).toEqual({});
    expect(await readLogicalVolume(snapshotId)).toBeUndefined();
  });

  it("does not take the deletion of an earlier one of the name for the node's word", async () => {
    const snapshotId = await makeSnapshot(await makeVolume());
    node.silent = true;
    const logicalVolumes = createReflector({ client: cluster.client, resource: LOGICAL_VOLUMES, log });
    const deleting = {
      client: cluster.client,
      logicalVolumes,
      // A cache that is behind: it has not shown the snapshot yet, and says that its name is gone.
      logicalVolumeChange: async (_name: string, holds: (one: LogicalVolume | undefined) => boolean) => {
        holds(undefined);
      },
      events: NO_EVENTS,
      removalWaitLimitMs: 0,
    };
    await expect(deleteSnapshot(deleting, snapshotId)).rejects.toMatchObject({ code: "ABORTED" });
    expect((await readLogicalVolume(snapshotId))?.spec.state).toBe("Removed");
  });

  it("of one whose node is gone does not wait for it", async () => {
    const snapshotId = await makeSnapshot(await makeVolume());
    const live = await cluster.client.get(NODES, { name: NODE_NAME });
    if (live === undefined) throw new Error("the test's cluster has no node");
    node.silent = true;
    await cluster.client.delete("test/node", NODES, { name: NODE_NAME });
    try {
      await remove(snapshotId);
      expect(await readLogicalVolume(snapshotId)).toBeUndefined();
    } finally {
      const { apiVersion, kind, metadata } = live;
      await cluster.client.create("test/node", NODES, {
        ...live,
        apiVersion,
        kind,
        metadata: { name: metadata.name, labels: metadata.labels ?? {} },
      });
    }
  });

  it.each([
    ["no UUID", "snap-1"],
    ["a path", "../etc"],
    ["a volume handle", `fs-${randomUUID()}`],
    ["a snapshot id that there is not", `snap-${randomUUID()}`],
  ])("of %s is OK", async (_what, id) => {
    expect(await remove(id)).toEqual({});
  });

  it("never touches a volume", async () => {
    const volume = await makeVolume();
    await remove(volume);
    expect((await readLogicalVolume(volume))?.spec.state).toBeUndefined();
    expect(node.volumes.has((await readLogicalVolume(volume))?.metadata.uid ?? "")).toBe(true);
  });
});

describe("CreateVolume", () => {
  it.each([
    ["a snapshot", async (volume: string) => ofSnapshot(await makeSnapshot(volume))],
    ["a volume", async (volume: string) => ofVolume(volume)],
  ])("of %s makes a writable copy on its node, as large as is asked for, and says what it is of", async (_what, of) => {
    const volumeContentSource = await of(await makeVolume());
    const request = order({ volumeContentSource, capacityRange: { requiredBytes: 2 * GIB, limitBytes: 0 } });
    const { volume } = await create({ ...request, accessibilityRequirements: undefined });
    expect(volume).toMatchObject({
      capacityBytes: 2 * GIB,
      contentSource: volumeContentSource,
      accessibleTopology: [{ segments: { [TOPOLOGY_NODE]: NODE_NAME } }],
    });
    const { type } = volumeContentSource;
    const source = type?.$case === "snapshot" ? type.value.snapshotId : type?.value.volumeId;
    const logicalVolume = await readLogicalVolume(volume?.volumeId ?? "");
    expect(logicalVolume?.spec).toMatchObject({ source, deviceClass: "thin", size: "2Gi", nodeName: NODE_NAME });
    expect(logicalVolume?.spec.accessType).toBeUndefined();
    expect(await create({ ...request, accessibilityRequirements: undefined })).toMatchObject({ volume });
  });

  it("of a snapshot outlives the snapshot's source, and the copy the snapshot", async () => {
    const source = await makeVolume();
    const snapshotId = await makeSnapshot(source);
    await removeVolume(source);
    const { volume } = await create(order({ volumeContentSource: ofSnapshot(snapshotId) }));
    await remove(snapshotId);
    expect(node.volumes.has((await readLogicalVolume(volume?.volumeId ?? ""))?.metadata.uid ?? "")).toBe(true);
    await removeVolume(volume?.volumeId ?? "");
  });

  it("of a class with a lower initialSize is as large as its source", async () => {
    const source = await makeVolume();
    const { volume } = await create(order({ volumeContentSource: ofVolume(source) }, { initialSize: "512Mi" }));
    expect((await readLogicalVolume(volume?.volumeId ?? ""))?.spec.size).toBe("1Gi");
  });

  it("takes the source's class where the StorageClass names none", async () => {
    const source = await makeVolume({ deviceClass: "thin-too" });
    const request = order({ volumeContentSource: ofVolume(source) });
    const { deviceClass: _named, ...parameters } = request.parameters;
    const { volume } = await create({ ...request, parameters });
    expect((await readLogicalVolume(volume?.volumeId ?? ""))?.spec.deviceClass).toBe("thin-too");
  });

  it("of a raw block volume is one, and so is a snapshot of it, also with the source gone", async () => {
    const volumeCapabilities = [blockCapability()];
    const source = (await create(order({ volumeCapabilities }))).volume?.volumeId ?? "";
    const snapshotId = await makeSnapshot(source);
    expect((await readLogicalVolume(snapshotId))?.spec.volumeMode).toBe("Block");
    const isBlock = async (volumeContentSource: VolumeContentSource) => {
      const { volume } = await create(order({ volumeCapabilities, volumeContentSource }));
      expect((await readLogicalVolume(volume?.volumeId ?? ""))?.spec).toMatchObject({ volumeMode: "Block" });
      expect(volume?.volumeContext).toMatchObject({ "tidemark.dev/volume-mode": "Block" });
    };
    await isBlock(ofVolume(source));
    await removeVolume(source);
    await isBlock(ofSnapshot(snapshotId));
  });

  it.each([
    ["a filesystem", "a raw block volume", mountCapability(), blockCapability(), "has volumeMode Filesystem"],
    ["a raw block volume", "a filesystem", blockCapability(), mountCapability(), "has volumeMode Block"],
  ])("of %s as %s is refused before anything is made", async (_is, _asked, ofSource, asked, text) => {
    const source = (await create(order({ volumeCapabilities: [ofSource] }))).volume?.volumeId ?? "";
    const made = [...node.made];
    for (const volumeContentSource of [ofVolume(source), ofSnapshot(await makeSnapshot(source))])
      await expect(create(order({ volumeCapabilities: [asked], volumeContentSource }))).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
        details: expect.stringContaining(text),
      });
    expect(node.made).toHaveLength(made.length + 1);
  });

  const elsewhere = { segments: { [TOPOLOGY_NODE]: "node-2" } };
  it.each<[string, Partial<CreateVolumeRequest>, Record<string, string>, status, string]>([
    [
      "smaller than its source",
      { capacityRange: { requiredBytes: GIB / 2, limitBytes: 0 } },
      {},
      status.OUT_OF_RANGE,
      "request at least as much",
    ],
    [
      "on another node",
      { accessibilityRequirements: { requisite: [elsewhere], preferred: [elsewhere] } },
      {},
      status.RESOURCE_EXHAUSTED,
      `is on node ${NODE_NAME}`,
    ],
    ["in another class", {}, { deviceClass: "thin-too" }, status.INVALID_ARGUMENT, "is in device class thin"],
    [
      "of another filesystem",
      {},
      { "csi.storage.k8s.io/fstype": "xfs" },
      status.INVALID_ARGUMENT,
      "formatted as btrfs, and asked for is xfs",
    ],
  ])("of a copy that is %s is refused before anything is made", async (_what, fields, parameters, code, text) => {
    const source = await makeVolume();
    for (const volumeContentSource of [ofVolume(source), ofSnapshot(await makeSnapshot(source))]) {
      const request = order({ volumeContentSource, ...fields }, parameters);
      await expect(create(request)).rejects.toMatchObject({ code, details: expect.stringContaining(text) });
    }
    const copies = (await cluster.client.list(LOGICAL_VOLUMES)).items.filter((one) => one.spec.source === source);
    expect(copies.map(({ metadata }) => metadata.name)).toEqual([expect.stringMatching(/^snap-/)]);
  });

  it.each([
    ["a snapshot", ofSnapshot(`snap-${randomUUID()}`)],
    ["a volume", ofVolume(`fs-${randomUUID()}`)],
    ["a volume by a snapshot's id", ofVolume(`snap-${randomUUID()}`)],
    ["a snapshot by a path", ofSnapshot("../etc")],
  ])("of %s that there is not is NOT_FOUND", async (_what, volumeContentSource) => {
    await expect(create(order({ volumeContentSource }))).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  it("of the loop backend cannot be a copy", async () => {
    const { deviceClass: _lvm, ...rest } = order().parameters;
    const parameters = { ...rest, backend: "loop" };
    const request = order({ parameters, volumeContentSource: ofVolume(await makeVolume()) });
    await expect(create(request)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it("of the same name but another source is ALREADY_EXISTS", async () => {
    const request = order({ volumeContentSource: ofVolume(await makeVolume()) });
    await create(request);
    for (const volumeContentSource of [undefined, ofVolume(await makeVolume())])
      await expect(create({ ...request, volumeContentSource })).rejects.toMatchObject({
        code: status.ALREADY_EXISTS,
        details: expect.stringContaining("began as a copy of"),
      });
  });
});

it("local.tidemark.dev declares snapshots and clones", async () => {
  const { capabilities } = await answer<object, ControllerGetCapabilitiesResponse>(
    controller.controllerGetCapabilities,
    {},
  );
  const types = JSON.stringify(capabilities);
  for (const type of [Rpc.CREATE_DELETE_SNAPSHOT, Rpc.CLONE_VOLUME])
    expect(types).toContain(`"value":{"type":${type}}`);
  expect(types).not.toContain(`"value":{"type":${Rpc.LIST_SNAPSHOTS}}`);
});
