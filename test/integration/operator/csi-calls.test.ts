import { randomUUID } from "node:crypto";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  ControllerClient,
  type ControllerExpandVolumeRequest,
  type ControllerExpandVolumeResponse,
  type ControllerGetVolumeRequest,
  type ControllerGetVolumeResponse,
  type CreateVolumeRequest,
  type CreateVolumeResponse,
  type DeleteVolumeRequest,
  type DeleteVolumeResponse,
  type GetPluginInfoRequest,
  type GetPluginInfoResponse,
  IdentityClient,
  type ProbeRequest,
  type ProbeResponse,
  type ValidateVolumeCapabilitiesRequest,
  type ValidateVolumeCapabilitiesResponse,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { NAMESPACES, NODES } from "../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { createMemberHome } from "../../../src/operator/apply/member-home.ts";
import { createLayoutWriter } from "../../../src/operator/apply/volume-objects.ts";
import { deleteVolume } from "../../../src/operator/csi/remove/delete-volume.ts";
import { createLayoutWatch, createVolumeChanges } from "../../../src/operator/gather/cache-waits.ts";
import { createVolumeCaches } from "../../../src/operator/gather/volume-caches.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildCreateVolumeRequest, mountCapability, PARAMETERS } from "../../builders/create-volume-request.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
let controller: ControllerClient;
let identity: IdentityClient;
beforeAll(async () => {
  cluster = await startTestCluster();
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };
  await cluster.client.create("test/create-namespace", NAMESPACES, namespace);
  controller = new ControllerClient(`unix://${cluster.operatorSocket}`, credentials.createInsecure());
  identity = new IdentityClient(`unix://${cluster.operatorSocket}`, credentials.createInsecure());
});
afterAll(async () => {
  controller.close();
  identity.close();
  await cluster.stop();
});

type Unary<Request, Response> = (
  request: Request,
  metadata: Metadata,
  callback: (error: ServiceError | null, response: Response) => void,
) => unknown;

function call<Request, Response>(method: Unary<Request, Response>, request: Request): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, new Metadata(), (error, response) => (error === null ? resolve(response) : reject(error)));
  });
}

const createVolume = (fields: Partial<CreateVolumeRequest>) =>
  call<CreateVolumeRequest, CreateVolumeResponse>(
    (request, metadata, callback) => controller.createVolume(request, metadata, callback),
    buildCreateVolumeRequest(fields),
  );
const deleteById = (volumeId: string) =>
  call<DeleteVolumeRequest, DeleteVolumeResponse>(
    (request, metadata, callback) => controller.deleteVolume(request, metadata, callback),
    { volumeId, secrets: {} },
  );
const expandTo = (volumeId: string, requiredBytes: number) =>
  call<ControllerExpandVolumeRequest, ControllerExpandVolumeResponse>(
    (request, metadata, callback) => controller.controllerExpandVolume(request, metadata, callback),
    {
      volumeId,
      capacityRange: { requiredBytes, limitBytes: 0 },
      secrets: {},
      volumeCapability: undefined,
    },
  );

/** A name that carries no claim's UID: nothing owns the objects, as when CSI is called by hand. */
const fresh = (claim: string) => ({
  name: `by-hand-${randomUUID()}`,
  parameters: { ...PARAMETERS, "csi.storage.k8s.io/pvc/name": claim },
});
const readLayout = (name: string) => cluster.client.get(FILESYSTEM_LAYOUTS, { name });

describe("the Identity service", () => {
  it("names the driver and says when it is ready", async () => {
    const info = await call<GetPluginInfoRequest, GetPluginInfoResponse>(
      (request, metadata, callback) => identity.getPluginInfo(request, metadata, callback),
      {},
    );
    expect(info).toMatchObject({ name: "local.tidemark.dev" });
    const probe = await call<ProbeRequest, ProbeResponse>(
      (request, metadata, callback) => identity.probe(request, metadata, callback),
      {},
    );
    expect(probe.ready).toBe(true);
  });
});

describe("CreateVolume", () => {
  it("repeated, answers the same and changes nothing", async () => {
    const order = fresh("repeated");
    const first = await createVolume(order);
    const layout = await readLayout(first.volume?.volumeId ?? "");
    expect(await createVolume(order)).toEqual(first);
    expect((await readLayout(first.volume?.volumeId ?? ""))?.metadata.resourceVersion).toBe(
      layout?.metadata.resourceVersion,
    );
    expect(first.volume).toMatchObject({
      capacityBytes: 10 * GIB,
      accessibleTopology: [{ segments: { "topology.tidemark.dev/node": "node-1" } }],
    });
  });

  it("finishes what an earlier call left half done", async () => {
    const order = fresh("half");
    await createVolume(order);
    await cluster.client.delete("test/delete-filesystem", FILESYSTEMS, { namespace: "shop", name: "half" });
    await createVolume(order);
    expect(await cluster.client.get(FILESYSTEMS, { namespace: "shop", name: "half" })).toBeDefined();
  });

  it("of the same name but another size is refused as ALREADY_EXISTS", async () => {
    const order = fresh("differs");
    await createVolume(order);
    const other = createVolume({ ...order, capacityRange: { requiredBytes: 11 * GIB, limitBytes: 0 } });
    await expect(other).rejects.toMatchObject({ code: status.ALREADY_EXISTS });
  });

  it("for a namespace that is gone leaves nothing behind", async () => {
    const { name, parameters } = fresh("nowhere");
    const order = { name, parameters: { ...parameters, "csi.storage.k8s.io/pvc/namespace": "gone" } };
    const before = (await cluster.client.list(FILESYSTEM_LAYOUTS)).items.length;
    await expect(createVolume(order)).rejects.toMatchObject({ details: expect.stringContaining('"gone" not found') });
    expect((await cluster.client.list(FILESYSTEM_LAYOUTS)).items).toHaveLength(before);
  });

  it("without topology picks a node that has the driver", async () => {
    const { volume } = await createVolume({ ...fresh("anywhere"), accessibilityRequirements: undefined });
    expect((await readLayout(volume?.volumeId ?? ""))?.spec.nodeName).toBe("node-1");
  });

  it("never runs twice at the same time for one name", async () => {
    const order = fresh("twice");
    const results = await Promise.allSettled([createVolume(order), createVolume(order), createVolume(order)]);
    const refused = results.flatMap((one) => (one.status === "rejected" ? [(one.reason as ServiceError).code] : []));
    expect(results.some((one) => one.status === "fulfilled")).toBe(true);
    expect(refused.every((code) => code === status.ABORTED)).toBe(true);
    expect(refused.length).toBeGreaterThan(0);
  });

  it("replaces the Filesystem of an earlier claim of that name, whose target is not the new volume's", async () => {
    const first = await createVolume(fresh("reused"));
    const target = { size: "50Gi", from: "10Gi", epoch: 1, decidedAt: "2030-01-01T00:00:00.000Z" };
    await cluster.client.apply(
      "test/target",
      FILESYSTEMS,
      {
        apiVersion: "tidemark.dev/v1alpha1",
        kind: "Filesystem",
        metadata: { namespace: "shop", name: "reused" },
        spec: { target },
      },
      { fieldManager: "tidemark-policy-engine" },
    );
    const second = await createVolume(fresh("reused"));
    const filesystem = await cluster.client.get(FILESYSTEMS, { namespace: "shop", name: "reused" });
    expect(`fs-${filesystem?.spec.claimRef?.uid}`).toBe(second.volume?.volumeId);
    expect(second.volume?.volumeId).not.toBe(first.volume?.volumeId);
    expect(filesystem?.spec.target).toBeUndefined();
    expect((await readLayout(second.volume?.volumeId ?? ""))?.spec.target).toBeUndefined();
  });
});

describe("ControllerExpandVolume", () => {
  it("answers with exactly the request and leaves nothing to the node service", async () => {
    const { volume } = await createVolume(fresh("expanded"));
    const answer = await expandTo(volume?.volumeId ?? "", 12 * GIB + 1);
    expect(answer).toEqual({ capacityBytes: 12 * GIB + 1, nodeExpansionRequired: false });
  });

  it("repeated, is the same decision; lower, is none", async () => {
    const { volume } = await createVolume(fresh("repeated-expansion"));
    const handle = volume?.volumeId ?? "";
    await expandTo(handle, 12 * GIB);
    const target = (await readLayout(handle))?.spec.target;
    await expandTo(handle, 12 * GIB);
    await expandTo(handle, 11 * GIB);
    expect((await readLayout(handle))?.spec.target).toEqual(target);
  });

  it.each(["fs-11111111-2222-4333-8444-555555555555", "../../etc/passwd", "fs-x"])("of %s is NOT_FOUND", async (id) => {
    await expect(expandTo(id, GIB)).rejects.toMatchObject({ code: status.NOT_FOUND });
  });
});

describe("ValidateVolumeCapabilities", () => {
  it("confirms what the volume is and explains what it is not", async () => {
    const { volume } = await createVolume(fresh("validated"));
    const validate = (fsType: string) =>
      call<ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse>(
        (request, metadata, callback) => controller.validateVolumeCapabilities(request, metadata, callback),
        {
          volumeId: volume?.volumeId ?? "",
          volumeContext: {},
          volumeCapabilities: [mountCapability(fsType)],
          parameters: {},
          secrets: {},
          mutableParameters: {},
        },
      );
    expect((await validate("btrfs")).confirmed).toBeDefined();
    const other = await validate("xfs");
    expect(other.confirmed).toBeUndefined();
    expect(other.message).toContain("is formatted as btrfs, not as xfs");
    const unknown = await validate("zfs");
    expect(unknown.confirmed).toBeUndefined();
    expect(unknown.message).toContain('filesystem type "zfs"; there are: ');
  });
});

describe("DeleteVolume", () => {
  it("removes data and objects, and is OK again afterwards", async () => {
    const { volume } = await createVolume(fresh("deleted"));
    const handle = volume?.volumeId ?? "";
    await deleteById(handle);
    expect(await readLayout(handle)).toBeUndefined();
    expect(await cluster.client.get(FILESYSTEMS, { namespace: "shop", name: "deleted" })).toBeUndefined();
    await deleteById(handle);
  });

  it.each(["fs-99999999-2222-4333-8444-555555555555", "no volume of ours"])(
    "of %s, which is nothing, is OK",
    async (id) => {
      await deleteById(id);
    },
  );

  it("leaves the Filesystem of a later claim of the same name alone", async () => {
    const former = await createVolume(fresh("successor"));
    const latter = await createVolume(fresh("successor"));
    await deleteById(former.volume?.volumeId ?? "");
    const filesystem = await cluster.client.get(FILESYSTEMS, { namespace: "shop", name: "successor" });
    expect(`fs-${filesystem?.spec.claimRef?.uid}`).toBe(latter.volume?.volumeId);
  });

  it("is ABORTED while the node has not confirmed, keeps the objects, and is done once it has", async () => {
    const { volume } = await createVolume(fresh("slow"));
    const handle = volume?.volumeId ?? "";
    await untilRead(
      "the node has seen it",
      () => readLayout(handle),
      (layout) => layout?.status !== undefined,
    );
    cluster.node.silent = true;
    await expect(
      withShortWait((deleting) => deleteVolume({ ...deleting, removalWaitLimitMs: 100 }, handle)),
    ).rejects.toMatchObject({
      code: "ABORTED",
      message: expect.stringContaining("node node-1 has not confirmed"),
    });
    const layout = await readLayout(handle);
    expect(layout?.spec.members?.map(({ state }) => state)).toEqual(["Removed"]);
    await expect(expandTo(handle, 20 * GIB)).rejects.toMatchObject({ code: status.FAILED_PRECONDITION });
    cluster.node.silent = false;
    await cluster.client.mergePatch(
      "test/nudge",
      FILESYSTEM_LAYOUTS,
      { name: handle },
      { metadata: { labels: { a: "b" } } },
    );
    await deleteById(handle);
    expect(await readLayout(handle)).toBeUndefined();
  });

  it("does not wait for a node that is not in the cluster any more", async () => {
    const elsewhere = { segments: { "topology.tidemark.dev/node": "scrapped" } };
    const { volume } = await createVolume({
      ...fresh("scrapped"),
      accessibilityRequirements: { requisite: [elsewhere], preferred: [elsewhere] },
    });
    expect(await cluster.client.get(NODES, { name: "scrapped" })).toBeUndefined();
    await deleteById(volume?.volumeId ?? "");
    expect(await readLayout(volume?.volumeId ?? "")).toBeUndefined();
  });

  async function withShortWait<T>(
    run: (deleting: Omit<Parameters<typeof deleteVolume>[0], "removalWaitLimitMs">) => Promise<T>,
  ) {
    const { client } = cluster;
    const log = createLogger("test", "silent");
    const caches = createVolumeCaches(client, log);
    caches.start();
    await caches.synced;
    try {
      const watch = createLayoutWatch(client, caches.layouts);
      return await run({
        client,
        caches,
        layouts: createLayoutWriter(client),
        watch,
        changes: createVolumeChanges(caches),
        home: createMemberHome(client, { guardsRequired: false }, log),
        events: createEventRecorder({ client, component: "test", nowMs: Date.now, log }),
      });
    } finally {
      await caches.stop();
    }
  }
});

describe("methods that the driver does not offer", () => {
  it("are UNIMPLEMENTED", async () => {
    const health = call<ControllerGetVolumeRequest, ControllerGetVolumeResponse>(
      (request, metadata, callback) => controller.controllerGetVolume(request, metadata, callback),
      { volumeId: "fs-x" },
    );
    await expect(health).rejects.toMatchObject({
      code: status.UNIMPLEMENTED,
      details: expect.stringContaining("use NodeGetVolumeStats"),
    });
  });
});

describe("the operator's HTTP server", () => {
  const read = async (path: string) => fetch(`http://127.0.0.1:${cluster.operatorHttpPort()}${path}`);

  it("is ready, and counts CSI calls by method and code", async () => {
    await expect(deleteById("")).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    expect((await read("/readyz")).status).toBe(200);
    expect((await read("/healthz")).status).toBe(200);
    const metrics = await (await read("/metrics")).text();
    expect(metrics).toContain(
      'tidemark_operator_csi_call_duration_seconds_count{method="DeleteVolume",code="INVALID_ARGUMENT"} 1',
    );
    expect(metrics).toContain('tidemark_operator_reconcile_duration_seconds_count{end="done"}');
  });
});
