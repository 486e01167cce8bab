// Pods, claims, volumes and their classes, as far as Tidemark and its tests make them: what is refused, and what never changes.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { untilRead } from "../harness/wait-for.ts";
import { type Answer, type ApiClient, type Json, MERGE } from "./api-client.ts";
import type { ContractTarget } from "./contract-target.ts";
import { startWidgets } from "./widget.ts";

const VOLUMES = "/api/v1/persistentvolumes";
const CLASSES = "/apis/storage.k8s.io/v1/storageclasses";
const ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments";
const CSI = { driver: "member.example.com", volumeHandle: "one" };
const CAPACITY = { storage: "1Gi" };
const MODES = ["ReadWriteOnce"];
const REQUEST = { accessModes: MODES, resources: { requests: CAPACITY } };

let target: ContractTarget;
let api: ApiClient;
let claims: string;
let pods: string;
let namespace: string;
/** A name of this run, for kinds without a namespace. */
const own = (name: string): string => `${namespace}-${name}`;

beforeAll(async () => {
  ({ target, api, namespace } = await startWidgets());
  claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
  pods = `/api/v1/namespaces/${namespace}/pods`;
});
afterAll(async () => {
  for (const collection of [ATTACHMENTS, VOLUMES, CLASSES]) {
    const { body } = await api.get(collection);
    for (const { metadata } of body.items)
      if (metadata.name.startsWith(own(""))) await api.delete(`${collection}/${metadata.name}`);
  }
  await target.close();
});

const core = (kind: string, name: string, spec?: object): Json => ({
  apiVersion: "v1",
  kind,
  metadata: { name },
  spec,
});
const affinity = (zone: string): object => ({
  required: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: "zone.example.com", operator: "In", values: [zone] }] }],
  },
});

/** Where controllers run, a namespace takes no pod before it has its service account. */
function post(collection: string, object: Json): Promise<Answer> {
  return untilRead(
    "the namespace to take pods",
    () => api.post(collection, object),
    ({ code }) => code !== 403,
  );
}

async function refused(collection: string, object: Json): Promise<unknown> {
  const { code, body } = await post(collection, object);
  expect(code).toBe(422);
  return body["details"].causes?.map(
    ({ field, message }: { field: string; message: string }) => `${field}: ${message}`,
  );
}

describe("a pod", () => {
  it.each<[string, object, string[]]>([
    ["no containers", {}, ["spec.containers: Required value"]],
    ["an empty list of containers", { containers: [] }, ["spec.containers: Required value"]],
    [
      "containers without image and name",
      { containers: [{ name: "a" }, { image: "b" }] },
      ["spec.containers[0].image: Required value", "spec.containers[1].name: Required value"],
    ],
  ])("is refused with %s", async (_what, spec, causes) => {
    expect(await refused(pods, core("Pod", "refused", spec))).toEqual(causes);
  });

  it("is put on a node by nobody who patches it", async () => {
    expect((await post(pods, core("Pod", "placed", { containers: [{ name: "a", image: "b" }] }))).code).toBe(201);
    const { code, body } = await api.patch(`${pods}/placed`, MERGE, { spec: { nodeName: "node-1" } });
    expect([code, body["details"].causes?.[0]?.field]).toEqual([422, "spec"]);
    expect((await api.get(`${pods}/placed`)).body["spec"].nodeName).toBeUndefined();
  });
});

describe("a volume", () => {
  it.each<[string, object, string[]]>([
    [
      "neither capacity nor access modes",
      { csi: CSI },
      [
        "spec.accessModes: Required value",
        "spec.capacity: Required value",
        'spec.capacity: Unsupported value: null: supported values: "storage"',
      ],
    ],
    ["no source", { capacity: CAPACITY, accessModes: MODES }, ["spec: Required value: must specify a volume type"]],
    [
      "a capacity of something else",
      { capacity: { cpu: "1" }, accessModes: MODES, csi: CSI },
      ['spec.capacity: Unsupported value: {"cpu":"1"}: supported values: "storage"'],
    ],
    [
      "an unknown access mode",
      { capacity: CAPACITY, accessModes: ["Sometimes"], csi: CSI },
      [
        'spec.accessModes: Unsupported value: "Sometimes": supported values: ' +
          '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
      ],
    ],
  ])("is refused with %s", async (_what, spec, causes) => {
    expect(await refused(VOLUMES, core("PersistentVolume", own("refused"), spec))).toEqual(causes);
  });

  it.each<[string, object, string]>([
    ["the nodes that reach it", { nodeAffinity: affinity("b") }, "nodeAffinity"],
    ["whether any node does", { nodeAffinity: null }, "nodeAffinity"],
    ["its source", { csi: { volumeHandle: "two" } }, "spec.persistentvolumesource"],
    ["its mode", { volumeMode: "Block" }, "volumeMode"],
  ])("never changes %s", async (_what, change, field) => {
    const name = own("fixed");
    const spec = { capacity: CAPACITY, accessModes: MODES, csi: CSI, nodeAffinity: affinity("a") };
    await api.post(VOLUMES, core("PersistentVolume", name, spec));
    const { code, body } = await api.patch(`${VOLUMES}/${name}`, MERGE, { spec: change });
    expect([code, body["details"].causes?.[0]?.field]).toEqual([422, field]);
  });

  it("may get a larger capacity, another class, and nodes where it had none", async () => {
    const name = own("changing");
    await api.post(VOLUMES, core("PersistentVolume", name, { capacity: CAPACITY, accessModes: MODES, csi: CSI }));
    const change = { capacity: { storage: "2Gi" }, storageClassName: "other", nodeAffinity: affinity("a") };
    const { code, body } = await api.patch(`${VOLUMES}/${name}`, MERGE, { spec: change });
    expect(code).toBe(200);
    expect(body["spec"]).toMatchObject(change);
  });
});

describe("a claim", () => {
  it.each<[string, object, string[]]>([
    [
      "nothing that it asks for",
      {},
      [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
      ],
    ],
    [
      "a request of nothing",
      { accessModes: MODES, resources: { requests: { storage: "0" } } },
      ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
    ],
  ])("is refused with %s", async (_what, spec, causes) => {
    expect(await refused(claims, core("PersistentVolumeClaim", "refused", spec))).toEqual(causes);
  });

  it.each<[string, object, boolean]>([
    ["a snapshot", { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "s" }, true],
    ["another claim", { kind: "PersistentVolumeClaim", name: "s" }, true],
    ["a snapshot of no group", { kind: "VolumeSnapshot", name: "s" }, false],
    ["another kind", { apiGroup: "example.com", kind: "Odd", name: "s" }, false],
  ])("that is copied from %s says so in both of its fields, or in neither", async (what, dataSource, isKnown) => {
    const name = `from-${what.replaceAll(" ", "-")}`;
    const { body } = await api.post(claims, core("PersistentVolumeClaim", name, { ...REQUEST, dataSource }));
    for (const field of ["dataSource", "dataSourceRef"])
      if (isKnown) expect(body["spec"][field]).toMatchObject(dataSource);
      else expect(body["spec"]).not.toHaveProperty(field);
  });

  /** With a volume, so that a controller that binds agrees. */
  async function bound(name: string, storageClassName: string): Promise<void> {
    const volumeName = own(`of-${name}`);
    const claimRef = { namespace, name };
    const volume = { capacity: CAPACITY, accessModes: MODES, csi: CSI, storageClassName, claimRef };
    await api.post(VOLUMES, core("PersistentVolume", volumeName, volume));
    const spec = { ...REQUEST, storageClassName, volumeName };
    await api.post(claims, core("PersistentVolumeClaim", name, spec));
    const status = { phase: "Bound", capacity: CAPACITY };
    expect((await api.patch(`${claims}/${name}/status`, MERGE, { status })).code).toBe(200);
  }
  const raise = (name: string, storage: string) =>
    api.patch(`${claims}/${name}`, MERGE, { spec: { resources: { requests: { storage } } } });
  const makeClass = (name: string, fields: object): Promise<unknown> =>
    api.post(CLASSES, {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name },
      provisioner: "d.example.com",
      ...fields,
    });

  it("that is bound grows in a class that allows it, and shrinks down to what it has", async () => {
    await makeClass(own("grows"), { allowVolumeExpansion: true });
    await bound("growing", own("grows"));
    expect((await raise("growing", "2Gi")).code).toBe(200);
    expect((await raise("growing", "1500Mi")).code).toBe(200);
    expect(await raise("growing", "500Mi")).toMatchObject({
      code: 422,
      body: { details: { causes: [{ message: "Forbidden: field can not be less than status.capacity" }] } },
    });
  });

  it.each([
    ["a class without expansion", "stays"],
    ["a class that is not there", "absent"],
  ])("of %s does not grow: 403", async (_what, name) => {
    await makeClass(own("stays"), {});
    await bound(`of-${name}`, own(name));
    const { code, body } = await raise(`of-${name}`, "2Gi");
    expect([code, body["reason"]]).toEqual([403, "Forbidden"]);
    expect(body["message"]).toContain("the storageclass that provisions the pvc must support resize");
  });

  it("that is not bound changes nothing of its request, and gets its volume once", async () => {
    await makeClass(own("grows"), { allowVolumeExpansion: true });
    await api.post(claims, core("PersistentVolumeClaim", "free", { ...REQUEST, storageClassName: own("grows") }));
    expect((await raise("free", "2Gi")).code).toBe(422);
    const give = (volumeName: string) => api.patch(`${claims}/free`, MERGE, { spec: { volumeName } });
    expect((await give("one")).code).toBe(200);
    expect((await give("two")).code).toBe(422);
  });

  it("and its class do not change what volumes of it are made of", async () => {
    await makeClass(own("fixed"), { parameters: { a: "1" } });
    for (const change of [{ parameters: { a: "2" } }, { reclaimPolicy: "Retain" }])
      expect((await api.patch(`${CLASSES}/${own("fixed")}`, MERGE, change)).code).toBe(422);
    expect((await api.patch(`${CLASSES}/${own("fixed")}`, MERGE, { allowVolumeExpansion: true })).code).toBe(200);
  });
});

it("an attachment is never moved", async () => {
  const source = { persistentVolumeName: "v" };
  await api.post(ATTACHMENTS, {
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: { name: own("one") },
    spec: { attacher: "d.example.com", nodeName: "node-1", source },
  });
  const moved = await api.patch(`${ATTACHMENTS}/${own("one")}`, MERGE, { spec: { nodeName: "node-2" } });
  expect([moved.code, moved.body["details"].causes?.[0]?.field]).toEqual([422, "spec"]);
});
