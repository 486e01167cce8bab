// What is deleted of a member that is out of its filesystem, and what stands in the way of that: each guard of the teardown by itself.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import {
  FILESYSTEM_LAYOUTS,
  type FilesystemLayout,
  type MemberSpec,
} from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  NAMESPACES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
} from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS, MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { type DepartingMember, removeDeparted, tearDownMember } from "../../../src/operator/apply/remove-members.ts";
import { attachmentName, memberClaimName, memberLabels } from "../../../src/operator/volumes/member-objects.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { CLAIM_REF, HANDLE, VOLUME_UID } from "../../builders/volume.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { type ApiServer, startApiServer } from "./api-server.ts";

const CLAIM_NAME = memberClaimName(HANDLE, "m1");
const VOLUME_NAME = "pv-m1";
const DEVICE = "device-of-m1";
const FINALIZER = "external-attacher/member-example-com";
const ATTACHMENT = attachmentName(HANDLE, "m1", "node-a");

let server: ApiServer;
let client: KubeClient;
/** As it stands in the API, bound to its volume. */
let claim: PersistentVolumeClaim;

beforeAll(async () => {
  server = await startApiServer("node-a");
  client = server.client;
  const metadata = { name: MEMBER_NAMESPACE };
  await client.create("test/namespace", NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata });
});
afterAll(() => server.stop());

beforeEach(async () => {
  claim = await createClaim();
  await client.create("test/volume", PERSISTENT_VOLUMES, {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: VOLUME_NAME, labels: memberLabels(VOLUME_UID, "m1") },
    spec: {
      capacity: { storage: "2Gi" },
      accessModes: ["ReadWriteOnce"],
      volumeMode: "Block",
      persistentVolumeReclaimPolicy: "Retain",
      claimRef: { kind: "PersistentVolumeClaim", ...CLAIM_NAME, uid: claim.metadata.uid },
      csi: { driver: "member.example.com", volumeHandle: DEVICE },
    },
  });
});
afterEach(async () => {
  if ((await readClaim()) !== undefined) await client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, CLAIM_NAME);
  await client.delete("test/volume", PERSISTENT_VOLUMES, { name: VOLUME_NAME });
});

const readClaim = () => client.get(PERSISTENT_VOLUME_CLAIMS, CLAIM_NAME);
const reclaimPolicy = async () =>
  (await client.get(PERSISTENT_VOLUMES, { name: VOLUME_NAME }))?.spec.persistentVolumeReclaimPolicy;

function createClaim(): Promise<PersistentVolumeClaim> {
  return client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { ...CLAIM_NAME, labels: memberLabels(VOLUME_UID, "m1") },
    spec: {
      accessModes: ["ReadWriteOnce"],
      volumeMode: "Block",
      storageClassName: "member-class",
      resources: { requests: { storage: "2Gi" } },
      volumeName: VOLUME_NAME,
    },
  });
}

const departing = (fields: Partial<DepartingMember> = {}): DepartingMember => ({
  handle: HANDLE,
  volumeUID: VOLUME_UID,
  name: "m1",
  claimUID: claim.metadata.uid,
  volumeHandle: DEVICE,
  ...fields,
});

/** Nothing of the member has changed. */
async function expectUntouched(): Promise<void> {
  expect((await readClaim())?.metadata).toMatchObject({ uid: claim.metadata.uid });
  expect((await readClaim())?.metadata.deletionTimestamp).toBeUndefined();
  expect(await reclaimPolicy()).toBe("Retain");
}

describe("a member that is torn down", () => {
  it("has its volume go with its claim", async () => {
    expect(await tearDownMember(client, departing())).toBeUndefined();
    expect(await readClaim()).toBeUndefined();
    expect(await reclaimPolicy()).toBe("Delete");
  });

  it("keeps claim and volume while its driver still detaches it, and loses them after that", async () => {
    await client.create("test/attachment", VOLUME_ATTACHMENTS, {
      apiVersion: "storage.k8s.io/v1",
      kind: "VolumeAttachment",
      metadata: { name: ATTACHMENT, labels: memberLabels(VOLUME_UID, "m1"), finalizers: [FINALIZER] },
      spec: { attacher: "member.example.com", nodeName: "node-a", source: { persistentVolumeName: VOLUME_NAME } },
    });
    const left = await tearDownMember(client, departing());
    expect(left).toBe(`VolumeAttachment ${ATTACHMENT} of member.example.com to node node-a to go`);
    await expectUntouched();
    const detached = { metadata: { finalizers: null } };
    await client.mergePatch("test/detached", VOLUME_ATTACHMENTS, { name: ATTACHMENT }, detached);
    expect(await tearDownMember(client, departing())).toBeUndefined();
    expect(await readClaim()).toBeUndefined();
  });

  it("keeps them where its claim was made anew since it was recorded", async () => {
    expect(await tearDownMember(client, departing({ claimUID: "another-uid" }))).toBeUndefined();
    await expectUntouched();
  });

  it("keeps them where its claim is bound to another volume than the one that was taken out", async () => {
    const left = await tearDownMember(client, departing({ volumeHandle: "device-of-another" }));
    expect(left).toContain(`is bound to volume ${DEVICE}, and what was taken out is device-of-another`);
    await expectUntouched();
  });

  it("keeps a claim that takes its claim's name right before the deletion", async () => {
    const between = interposed(
      client,
      (call) => call === "delete persistentvolumeclaims",
      async () => {
        await client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, CLAIM_NAME);
        claim = await createClaim();
      },
    );
    await expect(tearDownMember(between.client, departing())).rejects.toMatchObject({ reason: "Conflict" });
    expect((await readClaim())?.metadata.uid).toBe(claim.metadata.uid);
  });

  it("keeps its claim where somebody has written to it right before the deletion", async () => {
    const metadata = { annotations: { "example.com/note": "mine" } };
    const between = interposed(
      client,
      (call) => call === "delete persistentvolumeclaims",
      async () => void (await client.mergePatch("test/note", PERSISTENT_VOLUME_CLAIMS, CLAIM_NAME, { metadata })),
    );
    await expect(tearDownMember(between.client, departing())).rejects.toMatchObject({ reason: "Conflict" });
    expect((await readClaim())?.metadata.uid).toBe(claim.metadata.uid);
  });
});

describe("a member that a layout says is out", () => {
  const memberOf = (state: "Present" | "Removed"): MemberSpec => ({
    name: "m1",
    size: "2Gi",
    state,
    source: { claim: { name: CLAIM_NAME.name, uid: claim.metadata.uid, volumeHandle: DEVICE } },
  });

  async function createLayout(state: "Present" | "Removed"): Promise<FilesystemLayout> {
    const object = { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name: HANDLE } };
    const members = [{ name: "m0", size: "2Gi", state: "Present", source: {} }, memberOf(state)];
    const spec = { claimRef: CLAIM_REF, volumeUID: VOLUME_UID, backend: "span", fsType: "btrfs", members };
    const options = { fieldManager: FIELD_MANAGERS.operator };
    await client.apply("test/layout", FILESYSTEM_LAYOUTS, { ...object, spec }, options);
    const reported = [
      { name: "m0", size: "2Gi", state: "Present" },
      { name: "m1", size: "2Gi", state },
    ];
    return client.apply(
      "test/report",
      FILESYSTEM_LAYOUTS,
      { ...object, status: { nodeName: "node-a", mounted: true, members: reported } },
      { fieldManager: FIELD_MANAGERS.agent, subresource: "status" },
    );
  }
  afterEach(() => client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: HANDLE }));

  it("is torn down", async () => {
    const { gone } = await removeDeparted(client, await createLayout("Removed"));
    expect([...gone]).toEqual(["m1"]);
    expect(await readClaim()).toBeUndefined();
  });

  it("stays where only a layout from before says so, and the one in the API has it in the filesystem", async () => {
    const live = await createLayout("Present");
    const status = {
      ...live.status,
      members: (live.status?.members ?? []).map((one) =>
        one.name === "m1" ? { ...one, state: "Removed" as const } : one,
      ),
    };
    const members = (live.spec.members ?? []).map((one) => (one.name === "m1" ? memberOf("Removed") : one));
    const departure = await removeDeparted(client, { ...live, spec: { ...live.spec, members }, status });
    expect([...departure.gone]).toEqual([]);
    expect(departure.waiting).toEqual(["member m1: the layout to be seen as it is"]);
    await expectUntouched();
  });
});
