// PersistentVolumes and claims that do not name each other, as people can write them: nobody's volume is deleted or expanded by
// another's claim, and no claim gets a volume that was named for an earlier one.
import { randomUUID } from "node:crypto";
import { credentials, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import {
  ControllerClient,
  type CreateVolumeResponse,
  type GetCapacityRequest,
  type GetCapacityResponse,
} from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { NODE_STORAGES } from "../../../src/contracts/kinds/node-storage.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
} from "../../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { buildCreateVolumeRequest, PARAMETERS } from "../../builders/create-volume-request.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
let controller: ControllerClient;
beforeAll(async () => {
  cluster = await startTestCluster();
  for (const name of ["shop", "thief"])
    await cluster.client.create("test/create-namespace", NAMESPACES, {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name },
    });
  controller = new ControllerClient(`unix://${cluster.operatorSocket}`, credentials.createInsecure());
});
afterAll(async () => {
  controller.close();
  await cluster.stop();
});

type Outcome = { readonly code: status; readonly details: string };

function outcomeOf(call: (done: (error: ServiceError | null) => void) => unknown): Promise<Outcome> {
  return new Promise((resolve) =>
    call((error) => resolve({ code: error?.code ?? status.OK, details: error?.details ?? "" })),
  );
}

const deleteById = (volumeId: string) =>
  outcomeOf((done) => controller.deleteVolume({ volumeId, secrets: {} }, new Metadata(), done));
const expandTo = (volumeId: string, requiredBytes: number) => {
  const request = {
    volumeId,
    capacityRange: { requiredBytes, limitBytes: 0 },
    secrets: {},
    volumeCapability: undefined,
  };
  return outcomeOf((done) => controller.controllerExpandVolume(request, new Metadata(), done));
};

/** A claim of our class, provisioned by the stand-ins as csi-provisioner does it. */
async function boundClaim(
  name: string,
): Promise<{ claim: PersistentVolumeClaim; volume: PersistentVolume; handle: string }> {
  const claim = await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace: "shop", name },
    spec: {
      storageClassName: "tidemark-loop",
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "10Gi" } },
    },
  });
  const volumeName = `pvc-${claim.metadata.uid}`;
  await untilRead(
    `${name} to be bound`,
    () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name }),
    (seen) => seen?.status?.phase === "Bound",
  );
  const volume = await cluster.client.get(PERSISTENT_VOLUMES, { name: volumeName });
  if (volume === undefined) throw new Error(`no PersistentVolume ${volumeName}`);
  return { claim, volume, handle: volume.spec.csi?.volumeHandle ?? "" };
}

/** Another PersistentVolume that names the same handle, released by a claim that is gone. */
function forge({ spec }: PersistentVolume, name: string): Promise<PersistentVolume> {
  return cluster.client.create("test/forge-volume", PERSISTENT_VOLUMES, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      ...spec,
      persistentVolumeReclaimPolicy: "Retain",
      claimRef: { namespace: "thief", name: "stolen", uid: randomUUID() },
    },
  });
}

describe("a volume with a bound claim", () => {
  it("is not deleted, whoever asks", async () => {
    const { handle } = await boundClaim("in-use");
    const refusal = await deleteById(handle);
    expect(refusal.code).toBe(status.FAILED_PRECONDITION);
    expect(refusal.details).toContain("claim shop/in-use is bound to its PersistentVolume");
    expect((await cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle }))?.spec.members?.[0]?.state).toBe("Present");
  });

  it("is expanded for that claim", async () => {
    const { handle } = await boundClaim("expanded");
    expect(await expandTo(handle, 12 * GIB)).toMatchObject({ code: status.OK });
  });

  it("is neither deleted nor expanded while a forged PersistentVolume names its handle", async () => {
    const { volume, handle } = await boundClaim("forged");
    await forge(volume, "forged-by-hand");
    const untilCached = (call: () => Promise<Outcome>) =>
      untilRead("the operator to know the forged one", call, ({ details }) => details.includes("forged-by-hand"));
    expect((await untilCached(() => deleteById(handle))).code).toBe(status.FAILED_PRECONDITION);
    const expansion = await untilCached(() => expandTo(handle, 50 * GIB));
    expect(expansion.code).toBe(status.FAILED_PRECONDITION);
    expect(expansion.details).toContain(`the handle ${handle} (forged-by-hand, ${volume.metadata.name})`);
    await cluster.client.delete("test/delete-forged", PERSISTENT_VOLUMES, { name: "forged-by-hand" });
  });
});

describe("a new volume named for a claim", () => {
  const create = (name: string, claim: string) =>
    new Promise<Outcome & { response: CreateVolumeResponse | undefined }>((resolve) => {
      const parameters = { ...PARAMETERS, "csi.storage.k8s.io/pvc/name": claim };
      controller.createVolume(buildCreateVolumeRequest({ name, parameters }), new Metadata(), (error, response) =>
        resolve({ code: error?.code ?? status.OK, details: error?.details ?? "", response }),
      );
    });

  it("is refused when that claim is gone, and leaves nothing behind", async () => {
    const uid = randomUUID();
    const refusal = await create(`pvc-${uid}`, "gone");
    expect(refusal.code).toBe(status.FAILED_PRECONDITION);
    expect(refusal.details).toContain("claim shop/gone does not exist");
    expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: `fs-${uid}` })).toBeUndefined();
  });

  it("is refused when a later claim has the name", async () => {
    const { claim } = await boundClaim("later");
    const refusal = await create(`pvc-${randomUUID()}`, "later");
    expect(refusal.code).toBe(status.FAILED_PRECONDITION);
    expect(refusal.details).toContain(`claim shop/later has the UID ${claim.metadata.uid}`);
  });
});

describe("GetCapacity", () => {
  const ask = (fields: Partial<GetCapacityRequest>) =>
    new Promise<Outcome & { response: GetCapacityResponse | undefined }>((resolve) => {
      const request = { volumeCapabilities: [], parameters: {}, accessibleTopology: undefined, ...fields };
      controller.getCapacity(request, new Metadata(), (error, response) =>
        resolve({ code: error?.code ?? status.OK, details: error?.details ?? "", response }),
      );
    });
  const at = (node: string) => ({ accessibleTopology: { segments: { "topology.tidemark.dev/node": node } } });
  const report = async (name: string, free: string) => {
    const identity = { apiVersion: "tidemark.dev/v1alpha1", kind: "NodeStorage", metadata: { name } };
    const options = { fieldManager: "test", force: true };
    await cluster.client.apply("test/node-storage", NODE_STORAGES, { ...identity, spec: {} }, options);
    const status = { deviceClasses: [{ name: "loop", backend: "loop", free }] };
    await cluster.client.apply(
      "test/node-storage",
      NODE_STORAGES,
      { ...identity, status },
      { ...options, subresource: "status" },
    );
  };

  it("makes no figure up before a node has reported one", async () => {
    expect(await ask({})).toMatchObject({ code: status.UNAVAILABLE, details: expect.stringContaining("NodeStorage") });
  });

  it("tells what the node reported, and nothing of a node that is not one of ours any more", async () => {
    await report("node-1", "30Gi");
    await report("scrapped", "900Gi");
    const whole = { availableCapacity: 30 * GIB, maximumVolumeSize: 30 * GIB, minimumVolumeSize: GIB / 4 };
    expect((await ask({})).response).toMatchObject(whole);
    expect((await ask(at("node-1"))).response).toMatchObject(whole);
    expect(await ask(at("scrapped"))).toMatchObject({ code: status.UNAVAILABLE });
  });

  it("agrees with CreateVolume: more than the node has is RESOURCE_EXHAUSTED with figures, with and without topology", async () => {
    await report("node-1", "30Gi");
    const create = (requiredBytes: number, fields: object = {}) =>
      outcomeOf((done) =>
        controller.createVolume(
          buildCreateVolumeRequest({
            name: `by-hand-${randomUUID()}`,
            capacityRange: { requiredBytes, limitBytes: 0 },
            ...fields,
          }),
          new Metadata(),
          done,
        ),
      );
    for (const fields of [{}, { accessibilityRequirements: undefined }]) {
      expect(await create(31 * GIB, fields)).toMatchObject({
        code: status.RESOURCE_EXHAUSTED,
        details: expect.stringContaining("node node-1 has 30Gi left for members, and the volume needs 31Gi"),
      });
      expect(await create(30 * GIB, fields)).toMatchObject({ code: status.OK });
    }
  });

  it.each<[string, Partial<GetCapacityRequest>, string]>([
    ["an unknown parameter", { parameters: { backend: "loop", colour: "red" } }, "colour"],
    ["a topology that is not ours", { accessibleTopology: { segments: { zone: "a" } } }, "zone"],
  ])("refuses %s", async (_what, fields, text) => {
    expect(await ask(fields)).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining(text),
    });
  });
});
