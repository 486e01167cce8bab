// A span whose layout is lost: until its node has said whether it has the volume mounted, nothing of it is detached, given to another
// node or deleted.
import { type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import {
  NODES,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
} from "../../src/contracts/kubernetes/resources.ts";
import { createDriver, createMemberClass } from "../fakes/member-sidecars.ts";
import { untilRead } from "../harness/wait-for.ts";
import { type ProvisionedSpan, provisionedSpan } from "../integration/operator/provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "../integration/operator/span-cluster.ts";

let tested: SpanCluster;
beforeAll(async () => {
  tested = await startSpanCluster();
});
afterEach(async () => {
  await tested.cluster.stopOperator();
  await tested.cluster.startOperator();
});
afterAll(() => tested.stop());

const REFUSED = {
  code: status.FAILED_PRECONDITION,
  details: expect.stringContaining("perhaps mounted on node node-a"),
};
const members = (sizes: Record<string, string>) =>
  Object.entries(sizes).map(([name, size]) => ({ name, size, state: "Present" as const }));
const attachmentsOf = async (handle: string) =>
  (await tested.span.attachments()).filter(({ metadata }) =>
    handle.endsWith(metadata.labels?.["tidemark.dev/volume-uid"] ?? "-"),
  );
const isWhole = async (handle: string): Promise<boolean> => {
  const attached = await attachmentsOf(handle);
  return attached.length > 0 && attached.every(({ metadata }) => metadata.deletionTimestamp === undefined);
};

/** No operator makes it again until one of the CSI calls that follow could have done harm. */
async function loseLayout(handle: string): Promise<void> {
  await tested.cluster.client.delete("test/lose", FILESYSTEM_LAYOUTS, { name: handle });
}

const madeAgain = (handle: string, before: string | undefined) =>
  tested.span.untilLayout(
    "it is made again",
    handle,
    ({ metadata, spec }) => metadata.uid !== before && spec.backend === "span",
  );

async function lostAndFound(name: string): Promise<ProvisionedSpan> {
  const provisioned = await provisionedSpan(tested.cluster, tested.span, name);
  await tested.span.report(provisioned.handle, { nodeName: "node-a", mounted: true, members: members({ m0: "2Gi" }) });
  const before = (await tested.span.layout(provisioned.handle))?.metadata.uid;
  await loseLayout(provisioned.handle);
  const layout = await madeAgain(provisioned.handle, before);
  expect(layout).toMatchObject({ spec: { nodeName: "node-a" } });
  expect(layout.status).toBeUndefined();
  return provisioned;
}

it("one that is not made again yet is not detached: whoever asks is to ask again", async () => {
  const { handle, volumeName } = await provisionedSpan(tested.cluster, tested.span, "lost");
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: members({ m0: "2Gi" }) });
  // A record that cannot be read keeps the layout from being made again.
  const { client } = tested.cluster;
  const phase = (text: string) =>
    client.mergePatch("test/phase", PERSISTENT_VOLUMES, { name: volumeName }, { status: { phase: text } }, "status");
  await phase("Pending");
  await loseLayout(handle);
  for (const nodeId of ["node-a", ""])
    await expect(tested.span.unpublish(handle, nodeId)).rejects.toMatchObject({
      code: status.ABORTED,
      details: expect.stringContaining("its FilesystemLayout is being rebuilt"),
    });
  expect(await isWhole(handle)).toBe(true);
  await phase("Bound");
  await madeAgain(handle, undefined);
});

it("one that was made again is held by the node that it was attached to, until that says that it is not", async () => {
  const { handle } = await lostAndFound("held");
  await expect(tested.span.unpublish(handle, "node-a")).rejects.toMatchObject(REFUSED);
  await expect(tested.span.publish(handle, "node-b")).rejects.toMatchObject(REFUSED);
  expect(await isWhole(handle)).toBe(true);
  expect((await tested.span.layout(handle))?.spec.nodeName).toBe("node-a");

  await tested.span.report(handle, { nodeName: "node-a", mounted: false, members: members({ m0: "2Gi" }) });
  await tested.span.unpublish(handle, "node-a");
  expect(await attachmentsOf(handle)).toEqual([]);
  await tested.span.publish(handle, "node-b");
});

it("one that was made again is mounted where its node says so, and nothing else is believed", async () => {
  const { handle } = await lostAndFound("mounted");
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: members({ m0: "2Gi" }) });
  await expect(tested.span.unpublish(handle, "node-a")).rejects.toMatchObject({
    code: status.FAILED_PRECONDITION,
    details: expect.stringContaining("still mounted on node node-a"),
  });
  expect(await isWhole(handle)).toBe(true);
});

it("a node that is out of service holds neither one that is lost nor one that was made again", async () => {
  const { handle } = await lostAndFound("abandoned");
  const { client } = tested.cluster;
  const taint = { key: "node.kubernetes.io/out-of-service", value: "nodeshutdown", effect: "NoExecute" };
  await client.mergePatch("test/taint", NODES, { name: "node-a" }, { spec: { taints: [taint] } });
  await tested.span.unpublish(handle, "node-a");
  expect(await attachmentsOf(handle)).toEqual([]);
  await client.mergePatch("test/taint", NODES, { name: "node-a" }, { spec: { taints: [] } });
});

it("one whose claim has gone, too, is made again while it is attached, asked, and deleted then", async () => {
  const { handle, volumeName } = await provisionedSpan(tested.cluster, tested.span, "released");
  const { client } = tested.cluster;
  const claimName = { namespace: "shop", name: "released" };
  await tested.cluster.stopOperator();
  await loseLayout(handle);
  await client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, claimName);
  const released = { status: { phase: "Released" } };
  await client.mergePatch("test/released", PERSISTENT_VOLUMES, { name: volumeName }, released, "status");
  await tested.cluster.startOperator();
  await madeAgain(handle, undefined);
  await expect(tested.span.remove(handle)).rejects.toMatchObject(REFUSED);
  await tested.span.report(handle, { nodeName: "node-a", mounted: false, members: members({ m0: "2Gi" }) });
  await tested.span.unpublish(handle, "node-a");
  await client.delete("test/detached", VOLUME_ATTACHMENTS, { name: "csi-released" });
  await tested.span.remove(handle);
  expect(await tested.span.claims(handle)).toEqual([]);
  expect(await tested.span.layout(handle)).toBeUndefined();
});

/** Unmounted and unpublished; then layout, claim and all member claims are deleted while nobody looks. */
async function onlyVolumesAreLeft(name: string): Promise<ProvisionedSpan> {
  const provisioned = await provisionedSpan(tested.cluster, tested.span, name);
  const { handle, volumeName } = provisioned;
  const { client } = tested.cluster;
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: members({ m0: "2Gi" }) });
  await tested.span.target(name, "3Gi", "2Gi");
  await tested.span.untilLayout("m1", handle, ({ spec }) => spec.members?.[1]?.source.claim?.attachment !== undefined);
  await tested.span.report(handle, {
    nodeName: "node-a",
    mounted: false,
    members: members({ m0: "2Gi", m1: "1Gi" }),
  });
  await tested.span.unpublish(handle, "node-a");
  await client.delete("test/detached", VOLUME_ATTACHMENTS, { name: `csi-${name}` });
  await tested.cluster.stopOperator();
  await loseLayout(handle);
  await client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name });
  const released = { status: { phase: "Released" } };
  await client.mergePatch("test/released", PERSISTENT_VOLUMES, { name: volumeName }, released, "status");
  for (const claim of await tested.span.claims(handle))
    await client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, {
      namespace: "tidemark-volumes",
      name: claim,
    });
  await untilRead(
    "Released",
    () => keptVolumes(handle),
    (volumes) => volumes.every(({ status: now }) => now?.["phase"] === "Released"),
  );
  await tested.cluster.startOperator();
  return provisioned;
}

/** As csi-provisioner asks: again, while it is told to. */
const untilDeleted = (handle: string) =>
  untilRead(
    "it is deleted",
    () =>
      tested.span.remove(handle).then(
        () => "deleted",
        (error: ServiceError) => error.details,
      ),
    (answer) => answer === "deleted",
  );
const keptVolumes = async (handle: string) =>
  (await tested.cluster.client.list(PERSISTENT_VOLUMES)).items.filter(({ spec }) =>
    spec.claimRef?.name?.startsWith(`${handle}-`),
  );
const policiesOf = async (handle: string) =>
  (await keptVolumes(handle)).map(({ spec }) => `${spec.claimRef?.name} ${spec.persistentVolumeReclaimPolicy}`).sort();

it("one of which only its members' volumes are left releases those when it is deleted, and of no other's", async () => {
  const { handle } = await onlyVolumesAreLeft("orphans");
  const { client } = tested.cluster;
  const other = await provisionedSpan(tested.cluster, tested.span, "other");
  const [m0] = await keptVolumes(handle);
  if (m0 === undefined) throw new Error("there is no PersistentVolume of a member");
  const { uid: _uid, resourceVersion: _version, ...metadata } = m0.metadata;
  // The records of this volume, on what is somebody else's.
  const claimRef = { ...m0.spec.claimRef, namespace: "shop", name: "precious" };
  await client.create("test/volume", PERSISTENT_VOLUMES, {
    ...m0,
    metadata: { ...metadata, name: "precious" },
    spec: { ...m0.spec, claimRef },
  });
  expect(await policiesOf(handle)).toEqual([`${handle}-m0 Retain`, `${handle}-m1 Retain`]);
  await untilDeleted(handle);
  expect(await policiesOf(handle)).toEqual([`${handle}-m0 Delete`, `${handle}-m1 Delete`]);
  expect(await tested.span.layout(handle)).toBeUndefined();
  expect(await policiesOf(other.handle)).toEqual([`${other.handle}-m0 Retain`]);
  const precious = await client.get(PERSISTENT_VOLUMES, { name: "precious" });
  expect(precious?.spec.persistentVolumeReclaimPolicy).toBe("Retain");
});

it("a member's volume that waits for a claim by name gets it again, and goes with it", async () => {
  const { handle } = await onlyVolumesAreLeft("unbound");
  const { client } = tested.cluster;
  const m0 = (await keptVolumes(handle)).find(({ spec }) => spec.claimRef?.name === `${handle}-m0`);
  const forgotten = { spec: { claimRef: { uid: null } } };
  await client.mergePatch("test/forget", PERSISTENT_VOLUMES, { name: m0?.metadata.name ?? "" }, forgotten);
  await untilDeleted(handle);
  expect(await tested.span.claims(handle)).toEqual([]);
  await untilRead(
    "its driver has deleted it",
    () => policiesOf(handle),
    (policies) => policies.join() === `${handle}-m1 Delete`,
  );
});

/** Attached to node-a, where it may be mounted; then its claim is deleted, and layout and members' claims while nobody looks. */
async function releasedAndLost(name: string, parameters?: Record<string, string>): Promise<ProvisionedSpan> {
  const provisioned = await provisionedSpan(tested.cluster, tested.span, name, parameters);
  const { handle, volumeName } = provisioned;
  const { client } = tested.cluster;
  await tested.span.report(handle, { nodeName: "node-a", mounted: true, members: members({ m0: "2Gi" }) });
  await tested.cluster.stopOperator();
  await loseLayout(handle);
  await client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name });
  const released = { status: { phase: "Released" } };
  await client.mergePatch("test/released", PERSISTENT_VOLUMES, { name: volumeName }, released, "status");
  const claimName = { namespace: "tidemark-volumes", name: `${handle}-m0` };
  await client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, claimName);
  await untilRead(
    "Released",
    () => keptVolumes(handle),
    (volumes) => volumes.every(({ status: now }) => now?.["phase"] === "Released"),
  );
  return provisioned;
}

async function deleteKeptVolumes(handle: string): Promise<void> {
  for (const { metadata } of await keptVolumes(handle))
    await tested.cluster.client.delete("test/delete-volume", PERSISTENT_VOLUMES, { name: metadata.name });
}

it("one whose claim and members' claims have gone while it is attached is made again, and its node asked", async () => {
  const { handle } = await releasedAndLost("asked");
  await tested.cluster.startOperator();
  await madeAgain(handle, undefined);
  expect(await tested.span.claims(handle)).toEqual([`${handle}-m0`]);
  await expect(tested.span.unpublish(handle, "node-a")).rejects.toMatchObject(REFUSED);
  expect(await isWhole(handle)).toBe(true);
  await tested.span.report(handle, { nodeName: "node-a", mounted: false, members: members({ m0: "2Gi" }) });
  await tested.span.unpublish(handle, "node-a");
  expect(await attachmentsOf(handle)).toEqual([]);
});

it("one of which nothing is left is on no node once no member is attached, and not before", async () => {
  const { handle } = await releasedAndLost("nothing");
  await deleteKeptVolumes(handle);
  await tested.cluster.startOperator();
  const aborted = { code: status.ABORTED };
  for (const nodeId of ["node-a", ""])
    await expect(tested.span.unpublish(handle, nodeId)).rejects.toMatchObject(aborted);
  const [attachment] = await attachmentsOf(handle);
  expect(attachment?.metadata.deletionTimestamp).toBeUndefined();
  const name = attachment?.metadata.name ?? "";
  await tested.cluster.client.delete("test/detach", VOLUME_ATTACHMENTS, { name });
  await untilRead(
    "it is detached",
    () => attachmentsOf(handle),
    (left) => left.length === 0,
  );
  await tested.span.unpublish(handle, "node-a");
});

it("one of which nothing is left may be anywhere where its members need no attachment, or it still has a claim", async () => {
  const { client } = tested.cluster;
  await createDriver(client, "plain.example.com", false);
  await createMemberClass(client, "plain-class", false, "plain.example.com");
  const aborted = { code: status.ABORTED };
  const plain = await releasedAndLost("plain", { memberStorageClassName: "plain-class" });
  await deleteKeptVolumes(plain.handle);
  await tested.cluster.startOperator();
  await expect(tested.span.unpublish(plain.handle, "node-a")).rejects.toMatchObject(aborted);

  const bound = await releasedAndLost("bound");
  await deleteKeptVolumes(bound.handle);
  for (const { metadata } of await attachmentsOf(bound.handle))
    await client.delete("test/detach", VOLUME_ATTACHMENTS, { name: metadata.name });
  const phase = { status: { phase: "Bound" } };
  await client.mergePatch("test/bound", PERSISTENT_VOLUMES, { name: bound.volumeName }, phase, "status");
  await tested.cluster.startOperator();
  await expect(tested.span.unpublish(bound.handle, "node-a")).rejects.toMatchObject(aborted);
});
