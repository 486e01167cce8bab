// The operator dies by SIGKILL before and after every write of a lvm volume's life, and the life ends as it would have: one volume is
// made, and nothing is left behind. The node is played by numbers; what it does to LVM has a crash test of its own.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { bootstrap } from "../../demo/stand-ins/bootstrap.ts";
import { persistentVolumeOf, volumeNameOf } from "../../demo/stand-ins/volume-request.ts";
import {
  ControllerClient,
  type ControllerExpandVolumeResponse,
  type CreateSnapshotRequest,
  type CreateSnapshotResponse,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  type DeleteSnapshotResponse,
  type DeleteVolumeResponse,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../src/contracts/kinds/logical-volume.ts";
import {
  CSI_STORAGE_CAPACITIES,
  NAMESPACES,
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  STORAGE_CLASSES,
  type StorageClass,
} from "../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../src/contracts/names.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { buildClaim } from "../builders/claim.ts";
import { buildCreateVolumeRequest, PARAMETERS } from "../builders/create-volume-request.ts";
import { type FakeLvmNode, startFakeLvmNode } from "../fakes/fake-lvm-node.ts";
import { type ApiUnderTest, startApiUnderTest } from "../harness/api-under-test.ts";
import {
  type CrashingOperator,
  createCrashingOperator,
  liveWithEachDeath,
  persist,
} from "../harness/crashing-operator.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { untilRead } from "../harness/wait-for.ts";

const NODE_NAME = "node-1";
const NAMESPACE = "shop";
const MATRIX_LIMIT_MS = 2_400_000;
const OUT_OF_SERVICE = { key: "node.kubernetes.io/out-of-service", effect: "NoExecute" };
const STORAGE_CLASS: StorageClass = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name: "lvm" },
  provisioner: "local.tidemark.dev",
  parameters: { backend: "lvm", deviceClass: "ssd" },
};

let directory: string;
let controlPlane: ApiUnderTest;
let client: ConnectedKubeClient;
let node: FakeLvmNode;
let controller: ControllerClient;
let operator: CrashingOperator;

async function openWorld(): Promise<CrashingOperator> {
  const log = createLogger("test", "silent");
  directory = mkdtempSync(join(tmpdir(), "tidemark-lvm-crash-"));
  controlPlane = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  const crdDirectory = "kustomize/foundation/crds";
  await bootstrap(client, { crdDirectory, nodeName: NODE_NAME, initialSize: "1Gi", fsType: "btrfs" });
  const object = (kind: string, name: string) => ({ apiVersion: "v1", kind, metadata: { name } });
  await client.create("test/namespace", NAMESPACES, object("Namespace", NAMESPACE));
  for (const name of ["node-2", "node-3"]) await client.create("test/node", NODES, object("Node", name));
  node = await startFakeLvmNode(client, NODE_NAME, { ssd: "1Ti", thin: "1Ti" }, log);
  const socket = join(directory, "local.sock");
  controller = new ControllerClient(`unix://${socket}`, credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 200,
  });
  operator = await createCrashingOperator({
    directory,
    serverUrl: controlPlane.url,
    client,
    args: ["--csi-socket", socket, "--node-loss-delay", "0s"],
  });
  return operator;
}
async function closeWorld(): Promise<void> {
  controller.close();
  await operator.stop();
  await node.stop();
  await client.close();
  await controlPlane.close();
  rmSync(directory, { recursive: true, force: true });
}
async function renewWorld(): Promise<CrashingOperator> {
  await closeWorld();
  return openWorld();
}
beforeAll(async () => void (await openWorld()));
afterAll(closeWorld, 120_000);

it(
  "a lvm volume's life ends as it should, wherever the operator dies in it",
  async () => {
    const lived = await liveWithEachDeath("lvm-operator-crash", operator, live, renewWorld);
    noteDeaths("lvm-operator-crash", lived);
    const { points, failures } = lived;
    expect(points).toEqual(
      expect.arrayContaining(OWN_POINTS.flatMap((point) => [`${point}/before`, `${point}/after`])),
    );
    expect(failures).toEqual([]);
  },
  MATRIX_LIMIT_MS,
);

/** Those that no other life passes. */
const OWN_POINTS = [
  "create-volume/logical-volume",
  "create-volume/take-back",
  "delete-volume/logical-volume",
  "delete-volume/layout-of-logical-volume",
  "rebuild/logical-volume",
  "rebuild/logical-volume-claim",
  "capacity/publish",
  "capacity/withdraw",
  "node-loss/delete-claim",
  "delete-snapshot/ask-removal",
  "delete-snapshot/logical-volume",
  "expand-volume/target",
  "delete-volume/layout-from-record",
  "new-layout/drop",
  "write-filesystem/delete-former",
];

/** Refused for want of room, made, its objects lost, kept for another claim, deleted; then others that end in other ways. */
async function live(): Promise<void> {
  node.made.length = 0;
  await client.create("test/class", STORAGE_CLASSES, STORAGE_CLASS);
  await untilRead("the capacity is published", publishedClasses, (names) => names.includes("lvm"));
  const claim = await createClaim({});
  const request = requestFor(claim);
  await refusedForRoom(request);
  await leaveFormerFilesystem(claim);
  const handle = await bindVolume(claim, await persist(() => create(request)));
  expect(node.made).toHaveLength(1);
  await expandVolume(handle);
  await loseObjects(handle);
  const other = await rebind(claim, handle);
  await releaseVolume(other);
  await persist(() => remove(handle));

  await endWithoutVolume();
  await endBlankLayout();
  await snapshotVolume();
  await loseNode();

  await client.delete("test/class", STORAGE_CLASSES, { name: "lvm" });
  await untilRead("the capacity is withdrawn", publishedClasses, (names) => !names.includes("lvm"));
  expect(node.made).toHaveLength(5);
  expect([...node.volumes]).toEqual([]);
  expect((await client.list(LOGICAL_VOLUMES)).items).toEqual([]);
  expect((await client.list(FILESYSTEM_LAYOUTS)).items).toEqual([]);
}

/** The node has no room at first, and the claim would be sent to another one. */
async function refusedForRoom(request: CreateVolumeRequest): Promise<void> {
  node.failWith = { code: status.RESOURCE_EXHAUSTED, message: "insufficient free space" };
  await persist(() =>
    create(request).then(
      () => Promise.reject(new Error("there was room")),
      (error: ServiceError) => (error.code === status.RESOURCE_EXHAUSTED ? undefined : Promise.reject(error)),
    ),
  );
  node.failWith = undefined;
  expect((await client.list(LOGICAL_VOLUMES)).items).toEqual([]);
}

/** Of an earlier claim of this name: what was decided for that one must not be taken for this one's. */
async function leaveFormerFilesystem({ metadata: { name } }: PersistentVolumeClaim): Promise<void> {
  const target = { size: "900Gi", from: "1Gi", epoch: 1, decidedAt: "2026-01-01T00:00:00Z" };
  await client.apply(
    "test/filesystem",
    FILESYSTEMS,
    {
      ...{ apiVersion: API_VERSION, kind: "Filesystem", metadata: { namespace: NAMESPACE, name } },
      spec: { claimRef: { uid: randomUUID() }, target },
    },
    { fieldManager: FIELD_MANAGERS.policyEngine, force: true },
  );
}

/** As the resizer asks for a request that was raised. */
async function expandVolume(handle: string): Promise<void> {
  const { capacityBytes } = await persist(() => expand(handle, 3 * GIB));
  expect(capacityBytes).toBe(3 * GIB);
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  expect(layout?.spec.target?.size).toBe("3Gi");
}

async function loseObjects(handle: string): Promise<void> {
  const before = await readLogicalVolume(handle);
  await client.delete("test/logical-volume", LOGICAL_VOLUMES, { name: handle });
  const volumeID = before?.status?.volumeID;
  await untilLogicalVolume("it is made again", handle, ({ spec, status: said }) => {
    return spec.volumeID === volumeID && said?.volumeID === volumeID;
  });
  await client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: handle });
  await untilRead(
    "the layout is made again",
    () => client.get(FILESYSTEM_LAYOUTS, { name: handle }),
    (one) => one?.spec.members?.[0]?.source.logicalVolume?.volumeID === volumeID,
  );
}

/** The volume is kept when its claim goes, and bound to another one. */
async function rebind(claim: PersistentVolumeClaim, handle: string): Promise<PersistentVolumeClaim> {
  await client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, nameOf(claim));
  const name = volumeNameOf(claim);
  const other = await createClaim({}, name);
  const { uid } = other.metadata;
  await client.mergePatch(
    "test/volume",
    PERSISTENT_VOLUMES,
    { name },
    { spec: { claimRef: { ...nameOf(other), uid } } },
  );
  await untilLogicalVolume("it names the new claim", handle, ({ spec }) => spec.claimRef?.uid === uid);
  return other;
}

/** Its layout is lost before a PersistentVolume names it: only the LogicalVolume tells that there is something to delete. */
async function endWithoutVolume(): Promise<void> {
  const { volume } = await persist(() => create({ ...request, name: `by-hand-${randomUUID()}` }));
  const handle = volume?.volumeId ?? "";
  await client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: handle });
  await persist(() => remove(handle));
}

/** A crash has left the name of its layout, and nothing else. */
async function endBlankLayout(): Promise<void> {
  const name = `fs-${randomUUID()}`;
  await client.create("test/blank", FILESYSTEM_LAYOUTS, {
    ...{ apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name }, spec: {} },
  });
  await persist(() => remove(name));
  expect(await client.get(FILESYSTEM_LAYOUTS, { name })).toBeUndefined();
}

const request = buildCreateVolumeRequest({
  parameters: { ...PARAMETERS, backend: "lvm", "csi.storage.k8s.io/pvc/name": "by-hand" },
  capacityRange: { requiredBytes: 1024 ** 3, limitBytes: 0 },
});

/** The snapshot outlives its volume. */
async function snapshotVolume(): Promise<void> {
  const parameters = { ...request.parameters, deviceClass: "thin" };
  const { volume } = await persist(() => create({ ...request, parameters, name: `by-hand-${randomUUID()}` }));
  const handle = volume?.volumeId ?? "";
  const name = `snapshot-${randomUUID()}`;
  const { snapshot } = await persist(() => takeSnapshot({ sourceVolumeId: handle, name, secrets: {}, parameters: {} }));
  await persist(() => remove(handle));
  await persist(() => removeSnapshot(snapshot?.snapshotId ?? ""));
}

/** The claim is deleted with its node, and its volume once the node is back; its layout is lost by then. */
async function loseNode(): Promise<void> {
  const claim = await createClaim({ "tidemark.dev/on-node-loss": "Delete" });
  const handle = await bindVolume(claim, await persist(() => create(requestFor(claim))));
  await taint(OUT_OF_SERVICE);
  await untilRead(
    "the claim is deleted",
    () => client.get(PERSISTENT_VOLUME_CLAIMS, nameOf(claim)),
    (one) => one === undefined,
  );
  await taint();
  await client.mergePatch(
    "test/volume",
    PERSISTENT_VOLUMES,
    { name: volumeNameOf(claim) },
    { status: { phase: "Released" } },
    "status",
  );
  await client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: handle });
  await persist(() => remove(handle));
  await deletePersistentVolume(volumeNameOf(claim));
}

async function taint(...taints: object[]): Promise<void> {
  await client.mergePatch("test/taint", NODES, { name: NODE_NAME }, { spec: { taints } });
}

function requestFor({ metadata }: PersistentVolumeClaim): CreateVolumeRequest {
  const parameters = { ...PARAMETERS, ...STORAGE_CLASS.parameters, "csi.storage.k8s.io/pvc/name": metadata.name };
  return { ...request, name: `pvc-${metadata.uid}`, parameters };
}

function createClaim(annotations: Record<string, string>, volumeName?: string): Promise<PersistentVolumeClaim> {
  const name = `data-${randomUUID()}`;
  const spec = volumeName === undefined ? {} : { volumeName };
  const claim = buildClaim({ name, namespace: NAMESPACE, storageClassName: "lvm", request: "1Gi", annotations, spec });
  return client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, claim);
}

async function bindVolume(claim: PersistentVolumeClaim, response: CreateVolumeResponse): Promise<string> {
  const volume = persistentVolumeOf(claim, STORAGE_CLASS, response);
  await client.create("test/volume", PERSISTENT_VOLUMES, { ...volume, metadata: { name: volume.metadata.name } });
  const name = { name: volume.metadata.name };
  await client.mergePatch("test/claim", PERSISTENT_VOLUME_CLAIMS, nameOf(claim), { spec: { volumeName: name.name } });
  await client.mergePatch("test/volume", PERSISTENT_VOLUMES, name, { status: { phase: "Bound" } }, "status");
  return response.volume?.volumeId ?? "";
}

async function releaseVolume(claim: PersistentVolumeClaim): Promise<void> {
  await client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, nameOf(claim));
  await deletePersistentVolume(claim.spec.volumeName ?? "");
}

async function deletePersistentVolume(name: string): Promise<void> {
  await client.delete("test/volume", PERSISTENT_VOLUMES, { name });
}

const nameOf = ({ metadata: { name } }: PersistentVolumeClaim) => ({ namespace: NAMESPACE, name });
const readLogicalVolume = (name: string) => client.get(LOGICAL_VOLUMES, { name });

async function untilLogicalVolume(what: string, name: string, holds: (one: LogicalVolume) => boolean): Promise<void> {
  await untilRead(
    what,
    () => readLogicalVolume(name),
    (one) => one !== undefined && holds(one),
  );
}

async function publishedClasses(): Promise<string[]> {
  return (await client.list(CSI_STORAGE_CAPACITIES)).items.map(({ storageClassName }) => storageClassName);
}

function create(asked: CreateVolumeRequest): Promise<CreateVolumeResponse> {
  return new Promise((resolve, reject) => {
    controller.createVolume(asked, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function expand(volumeId: string, requiredBytes: number): Promise<ControllerExpandVolumeResponse> {
  const capacityRange = { requiredBytes, limitBytes: 0 };
  return new Promise((resolve, reject) => {
    controller.controllerExpandVolume(
      { volumeId, capacityRange, secrets: {}, volumeCapability: undefined },
      new Metadata(),
      (error, response) => (error ? reject(error) : resolve(response)),
    );
  });
}

function remove(volumeId: string): Promise<DeleteVolumeResponse> {
  return new Promise((resolve, reject) => {
    controller.deleteVolume({ volumeId, secrets: {} }, new Metadata(), (error, response) =>
      error ? reject(error) : resolve(response),
    );
  });
}

function takeSnapshot(asked: CreateSnapshotRequest): Promise<CreateSnapshotResponse> {
  return new Promise((resolve, reject) => {
    controller.createSnapshot(asked, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)));
  });
}

function removeSnapshot(snapshotId: string): Promise<DeleteSnapshotResponse> {
  return new Promise((resolve, reject) => {
    controller.deleteSnapshot({ snapshotId, secrets: {} }, new Metadata(), (error, response) =>
      error ? reject(error) : resolve(response),
    );
  });
}
