import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  VOLUME_ATTACHMENTS,
} from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE, SPAN_DRIVER } from "../../../src/contracts/names.ts";
import { buildClaim } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import type { TestCluster } from "./cluster.ts";
import { provisionedSpan } from "./provisioned-span.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached, type SpanUnderTest } from "./span-under-test.ts";

let tested: SpanCluster;
let cluster: TestCluster;
let span: SpanUnderTest;

beforeAll(async () => {
  tested = await startSpanCluster();
  ({ cluster, span } = tested);
});
afterAll(() => tested.stop());

/** Published to node-a, with two members mounted there. */
async function provisioned(name: string): Promise<string> {
  const { handle } = await provisionedSpan(cluster, span, name);
  await span.report(handle, mounted);
  await span.target(name, "3Gi", "2Gi");
  await span.untilLayout("m1 is attached", handle, isAttached("m1"));
  return handle;
}

const mounted = {
  nodeName: "node-a",
  mounted: true,
  members: [{ name: "m0", size: "2Gi", state: "Present" as const }],
};

it("a span's layout that a user has deleted comes back, and nothing of the volume is detached or deleted", async () => {
  const handle = await provisioned("kept");
  const before = await span.layout(handle);
  const own = async () => (await span.attachments()).map(({ metadata }) => metadata.uid).sort();
  const attachments = await own();
  await cluster.client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
  const after = await span.untilLayout(
    "a new layout that knows the members",
    handle,
    ({ metadata, spec }) =>
      metadata.uid !== before?.metadata.uid && spec.members?.every(({ source }) => source.claim?.attachment) === true,
  );
  // Sizes are as found: until its node reports them, no target is carried on, which would add a member.
  const members = before?.spec.members?.map(({ size: _asOrdered, ...member }) => member);
  const { target, ...spec } = before?.spec ?? {};
  expect(after.spec).toEqual({ ...spec, members });
  expect(after.metadata.annotations).toEqual(before?.metadata.annotations);
  await span.report(handle, {
    ...mounted,
    members: [...mounted.members, { name: "m1", size: "1Gi", state: "Present" }],
  });
  const known = await span.untilLayout("the target", handle, (layout) => layout.spec.target !== undefined);
  expect(known.spec).toEqual({ ...spec, members, target });
  expect(await own()).toEqual(attachments);
  expect(await span.claims(handle)).toEqual([`${handle}-m0`, `${handle}-m1`]);
});

it("a span's members get their claims again once those are gone with the layout, for the volumes that they had", async () => {
  const handle = await provisioned("orphaned");
  const { client } = cluster;
  const volumesOf = async () => {
    const { items } = await client.list(PERSISTENT_VOLUMES);
    return items
      .filter(({ spec }) => spec.claimRef?.name?.startsWith(`${handle}-`))
      .map(({ metadata, spec }) => [metadata.name, spec.claimRef?.name, spec.csi?.volumeHandle].join(" "))
      .sort();
  };
  const before = await span.layout(handle);
  const [volumes, claims, attachments] = [await volumesOf(), await span.claims(handle), await span.attachments()];
  expect(claims).toEqual([`${handle}-m0`, `${handle}-m1`]);
  await cluster.stopOperator();
  await client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
  const slow = { namespace: MEMBER_NAMESPACE, name: claims[1] ?? "" };
  const hold = (finalizers: string[] | null) =>
    client.mergePatch("test/hold", PERSISTENT_VOLUME_CLAIMS, slow, { metadata: { finalizers } });
  await hold(["test.example.com/hold"]);
  for (const name of claims)
    await client.delete("test/delete-member", PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, name });
  await cluster.startOperator();
  await untilRead(
    "it is Stalled until that claim is gone",
    async () => (await client.get(FILESYSTEMS, { namespace: "shop", name: "orphaned" }))?.status?.conditions ?? [],
    (conditions) =>
      conditions.some(
        ({ type, status, message }) => type === "Stalled" && status === "True" && message.includes(slow.name),
      ),
  );
  expect(await span.layout(handle)).toBeUndefined();
  await hold(null);
  const after = await span.untilLayout(
    "a new layout whose members are bound and attached",
    handle,
    ({ metadata, spec }) =>
      metadata.uid !== before?.metadata.uid && spec.members?.every(({ source }) => source.claim?.attachment) === true,
  );
  const handles = (layout = before) => layout?.spec.members?.map(({ source }) => source.claim?.volumeHandle);
  expect(handles(after)).toEqual(handles());
  expect(after.spec.nodeName).toBe("node-a");
  expect([await volumesOf(), await span.claims(handle)]).toEqual([volumes, claims]);
  const uids = (all: typeof attachments) => all.map(({ metadata }) => metadata.uid).sort();
  expect(uids(await span.attachments())).toEqual(uids(attachments));
});

it("a span whose claim was made anew, of another name, is that claim's from then on; of a forged volume it is not", async () => {
  const handle = await provisioned("moved");
  const { client } = cluster;
  const before = await span.layout(handle);
  const volumeName = `pvc-${before?.spec.claimRef?.uid}`;
  const volume = await client.get(PERSISTENT_VOLUMES, { name: volumeName });
  const bind = async (name: string, to: string) => {
    const fields = { name, namespace: "shop", storageClassName: "span", spec: { volumeName: to } };
    const claim = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, buildClaim(fields));
    return { kind: "PersistentVolumeClaim", namespace: "shop", name, uid: claim.metadata.uid };
  };
  if (volume === undefined) throw new Error("there is no PersistentVolume");
  const claimRef = await bind("thief", "forged");
  const { uid: _uid, resourceVersion: _version, ...metadata } = volume.metadata;
  const forged = { ...volume, metadata: { ...metadata, name: "forged" }, spec: { ...volume.spec, claimRef } };
  await client.create("test/volume", PERSISTENT_VOLUMES, forged);
  const bound = { status: { phase: "Bound" } };
  await client.mergePatch("test/bound", PERSISTENT_VOLUMES, { name: "forged" }, bound, "status");
  await cluster.stopOperator();
  await cluster.startOperator(); // which lists the forged one first
  await client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name: "moved" });
  await provisioned("later"); // by then the operator has seen all of it
  expect((await span.layout(handle))?.spec.claimRef).toEqual(before?.spec.claimRef);
  await client.delete("test/volume", PERSISTENT_VOLUMES, { name: "forged" });
  const own = await bind("renamed", volumeName);
  await client.mergePatch("test/rebind", PERSISTENT_VOLUMES, { name: volumeName }, { spec: { claimRef: own } });
  const { kind: _kind, ...expected } = own;
  await span.untilLayout("the new claim", handle, ({ spec }) => spec.claimRef?.uid === own.uid);
  expect((await span.layout(handle))?.spec.claimRef).toEqual(expected);
  const filesystem = await untilRead(
    "its Filesystem",
    () => client.get(FILESYSTEMS, { namespace: "shop", name: "renamed" }),
    (one) => one?.status?.volumeHandle === handle,
  );
  expect(filesystem?.spec.claimRef?.uid).toBe(own.uid);
});

it("a span whose attachments name two nodes is not given to either: it is Stalled until one has gone", async () => {
  const handle = await provisioned("contested");
  await cluster.stopOperator();
  const other = { apiVersion: "storage.k8s.io/v1", kind: "VolumeAttachment", metadata: { name: "csi-contested-b" } };
  const volume = (await cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name: "contested" }))?.spec;
  await cluster.client.create("test/attach", VOLUME_ATTACHMENTS, {
    ...other,
    spec: { attacher: SPAN_DRIVER, nodeName: "node-b", source: { persistentVolumeName: volume?.volumeName } },
  });
  await cluster.client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
  await cluster.startOperator();
  const stalled = await span.untilCondition("Stalled", "contested", "Stalled", ({ status }) => status === "True");
  expect(stalled).toMatchObject({ reason: "MembersMissing", message: expect.stringContaining("node-a, node-b") });
  expect(await span.layout(handle)).toBeUndefined();
});
