// What people and forgers can ask of span.tidemark.dev that cannot be: a clear refusal each time, nothing left behind, and nothing of
// anybody else's volume changed.
import { randomUUID } from "node:crypto";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { CreateVolumeRequest } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../../builders/claim.ts";
import { mountCapability } from "../../builders/create-volume-request.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";

let tested: SpanCluster;
beforeAll(async () => {
  tested = await startSpanCluster();
});
afterAll(() => tested.stop());

/** Everything of volumes that there is, and which version of it. */
async function everything(): Promise<string[]> {
  const { client } = tested.cluster;
  const lists = await Promise.all([
    client.list(FILESYSTEM_LAYOUTS),
    client.list(FILESYSTEMS),
    client.list(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE }),
  ]);
  const attachments = await tested.span.attachments();
  return [
    ...lists.flatMap(({ items }) => items as { metadata: { name: string; resourceVersion?: string } }[]),
    ...attachments,
  ]
    .map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`)
    .sort();
}

describe("a claim that cannot be had", () => {
  const sized = (requiredBytes: number): Partial<CreateVolumeRequest> => ({
    capacityRange: { requiredBytes, limitBytes: 0 },
  });
  it.each<[string, Record<string, string>, Partial<CreateVolumeRequest>, status, string]>([
    [
      "with an unknown parameter",
      { maxMember: "2" },
      {},
      status.INVALID_ARGUMENT,
      "unknown StorageClass parameters maxMember",
    ],
    [
      "of a filesystem that has one device",
      { "csi.storage.k8s.io/fstype": "xfs" },
      {},
      status.INVALID_ARGUMENT,
      "the backend span needs btrfs",
    ],
    ["of an unknown filesystem", { "csi.storage.k8s.io/fstype": "ntfs" }, {}, status.INVALID_ARGUMENT, '"ntfs"'],
    [
      "of a filesystem that its capability alone names",
      {},
      { volumeCapabilities: [mountCapability("ext4")] },
      status.INVALID_ARGUMENT,
      "needs btrfs",
    ],
    [
      "under the filesystem's minimum",
      {},
      sized(100 * MIB),
      status.OUT_OF_RANGE,
      "100Mi is too small for btrfs, which needs at least 256Mi",
    ],
    [
      "that begins under the filesystem's minimum",
      { initialSize: "16Mi" },
      {},
      status.OUT_OF_RANGE,
      "16Mi is too small for btrfs",
    ],
    [
      "over the class' maximum",
      { maxSize: "1Gi" },
      {},
      status.OUT_OF_RANGE,
      "2Gi is over the StorageClass' maxSize of 1Gi",
    ],
    [
      "of a maximum that is no quantity",
      { maxSize: "1GB" },
      {},
      status.INVALID_ARGUMENT,
      'parameter maxSize: "1GB" is not a quantity',
    ],
    [
      "of a member class that climbs",
      { memberStorageClassName: "../nodes/node-a" },
      {},
      status.INVALID_ARGUMENT,
      "is not a name",
    ],
    [
      "whose name climbs",
      { "csi.storage.k8s.io/pvc/name": "../../secrets/all" },
      {},
      status.INVALID_ARGUMENT,
      "are not names",
    ],
    [
      "whose namespace climbs",
      { "csi.storage.k8s.io/pvc/namespace": "../kube-system" },
      {},
      status.INVALID_ARGUMENT,
      "are not names",
    ],
  ])("%s is refused, and leaves nothing", async (_what, parameters, fields, code, text) => {
    const before = await everything();
    await expect(tested.span.create(tested.span.request(parameters, fields))).rejects.toMatchObject({
      code,
      details: expect.stringContaining(text),
    });
    expect(await everything()).toEqual(before);
  });

  it("is not raised over the class' maximum", async () => {
    const { handle } = await tested.span.created({ maxSize: "3Gi" });
    await expect(tested.span.expand(handle, 4 * GIB)).rejects.toMatchObject({
      code: status.OUT_OF_RANGE,
      details: expect.stringContaining("4Gi is over the StorageClass' maxSize of 3Gi"),
    });
    expect((await tested.span.layout(handle))?.spec.members).toHaveLength(1);
  });
});

/** A new volume whose member is there: the operator writes nothing more of it until a pod uses it. */
async function settledSpan(): Promise<{ readonly handle: string }> {
  const { handle, claim } = await tested.span.created();
  await tested.span.untilCondition("its member", claim, "Reconciling", ({ status: is }) => is === "False");
  return { handle };
}

describe("an id that names no volume", () => {
  it.each([
    ["climbs", "../filesystemlayouts/x"],
    ["climbs behind a handle", "fs-11111111-2222-4333-8444-555555555555/../x"],
    ["climbs, encoded", "..%2f..%2fx"],
    ["is a handle of nothing", "fs-11111111-2222-4333-8444-555555555555"],
    ["is a handle in upper case", "fs-AAAAAAAA-2222-4333-8444-555555555555"],
    ["ends with a NUL", "fs-11111111-2222-4333-8444-555555555555\0"],
  ])(
    "changes nothing where it %s",
    async (_what, volumeId) => {
      await settledSpan();
      const before = await everything();
      await expect(tested.span.publish(volumeId, "node-a")).rejects.toMatchObject({ code: status.NOT_FOUND });
      await expect(tested.span.expand(volumeId, 9 * GIB)).rejects.toMatchObject({ code: status.NOT_FOUND });
      expect(await tested.span.unpublish(volumeId, "node-a")).toEqual({});
      expect(await tested.span.remove(volumeId)).toEqual({});
      expect(await everything()).toEqual(before);
    },
    60_000,
  );

  it.each(["../nodes/node-a", "node-a/../node-b", "..", "no such node", "node-a%2fstatus"])(
    "of a node, %j, gets no volume",
    async (nodeId) => {
      const { handle } = await settledSpan();
      const before = await everything();
      await expect(tested.span.publish(handle, nodeId)).rejects.toMatchObject({ code: status.NOT_FOUND });
      expect(await everything()).toEqual(before);
    },
    60_000,
  );

  it("as a new volume's name is as good as any other: it becomes a handle of its own", async () => {
    const { volume } = await tested.span.create(tested.span.request({}, { name: "../../etc/passwd" }));
    expect(volume?.volumeId).toMatch(/^fs-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});

describe("a PersistentVolume that names another's volume", () => {
  it("gives nobody a node, a byte or the end of it, and its owner all of that once it is gone", async () => {
    const { client } = tested.cluster;
    const { handle, volumeName } = await provisionedSpan(tested.cluster, tested.span, "victim");
    await tested.span.unpublish(handle, "node-a");
    const owners = await client.get(PERSISTENT_VOLUMES, { name: volumeName });
    const claim = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, {
      ...buildClaim({ name: "stolen", namespace: "thief", storageClassName: "span" }),
    });
    if (owners === undefined) throw new Error("no volume");
    await client.create("test/forge", PERSISTENT_VOLUMES, {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "forged" },
      spec: { ...owners.spec, claimRef: { namespace: "thief", name: "stolen", uid: claim.metadata.uid } },
    });
    const bind = { spec: { volumeName: "forged" } };
    await client.mergePatch("test/bind", PERSISTENT_VOLUME_CLAIMS, { namespace: "thief", name: "stolen" }, bind);
    const refused = {
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining(`the handle ${handle} (forged, ${volumeName})`),
    };
    await untilRead(
      "the operator to know the forged one",
      () =>
        tested.span.expand(handle, 3 * GIB).then(
          () => "",
          (error: { details: string }) => error.details,
        ),
      (details) => details.includes("forged"),
    );
    const before = await everything();
    await expect(tested.span.publish(handle, "node-b")).rejects.toMatchObject(refused);
    await expect(tested.span.expand(handle, 9 * GIB)).rejects.toMatchObject(refused);
    await expect(tested.span.remove(handle)).rejects.toMatchObject(refused);
    expect(await everything()).toEqual(before);

    // With the owner's own out of the way it is no better.
    await client.delete("test/owners", PERSISTENT_VOLUMES, { name: volumeName });
    const foreign = { code: status.FAILED_PRECONDITION, details: expect.stringContaining("do not name each other") };
    await untilRead(
      "the operator to know one alone",
      () =>
        tested.span.publish(handle, "node-b").then(
          () => "",
          (error: { details: string }) => error.details,
        ),
      (details) => !details.includes("more than one PersistentVolume"),
    );
    await expect(tested.span.publish(handle, "node-b")).rejects.toMatchObject(foreign);
    await expect(tested.span.expand(handle, 9 * GIB)).rejects.toMatchObject(foreign);
    expect((await tested.span.layout(handle))?.spec.nodeName).toBeUndefined();
  });
});

it("two claims of one name in turn have a volume each, and the end of the first takes nothing of the second", async () => {
  const { client } = tested.cluster;
  const name = { namespace: "shop", name: "reused" };
  const first = await provisionedSpan(tested.cluster, tested.span, "reused");
  await tested.span.unpublish(first.handle, "node-a");
  await client.delete("test/claim", PERSISTENT_VOLUME_CLAIMS, name);
  const built = buildClaim({ ...name, storageClassName: "span" });
  const again = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, built);
  // The first one's volume is not the second's, whoever names it.
  const ofClaim = { "csi.storage.k8s.io/pvc/name": "reused" };
  await expect(tested.span.create(tested.span.request(ofClaim, { name: `pvc-${randomUUID()}` }))).rejects.toMatchObject(
    { code: status.FAILED_PRECONDITION, details: expect.stringContaining("has the UID") },
  );
  const { volume } = await tested.span.create(tested.span.request(ofClaim, { name: `pvc-${again.metadata.uid}` }));
  const second = volume?.volumeId ?? "";
  expect(second).not.toBe(first.handle);
  await client.delete("test/volume", PERSISTENT_VOLUMES, { name: first.volumeName });
  await untilRead(
    "the first to go",
    async () => {
      await tested.span.remove(first.handle).catch(() => undefined);
      return tested.span.layout(first.handle);
    },
    (layout) => layout === undefined,
  );
  expect(await tested.span.claims(second)).toEqual([`${second}-m0`]);
  expect((await client.get(FILESYSTEMS, name))?.spec.claimRef?.uid).toBe(again.metadata.uid);
  expect((await tested.span.layout(second))?.spec.members?.map(({ state }) => state)).toEqual(["Present"]);
});
