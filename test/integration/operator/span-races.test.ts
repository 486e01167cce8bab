// What others do between two steps of ours, at the very worst moment: nothing that is in use is detached, deleted or overwritten, and
// no node is told of what was before.
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import { fsidOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../../src/contracts/kubernetes/object.ts";
import {
  type CSIDriver,
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  type PersistentVolume,
  type PersistentVolumeClaim,
  VOLUME_ATTACHMENTS,
  type VolumeAttachment,
} from "../../../src/contracts/kubernetes/resources.ts";
import { MEMBER_NAMESPACE } from "../../../src/contracts/names.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { carryTarget } from "../../../src/operator/apply/carry-target.ts";
import { createMemberHome } from "../../../src/operator/apply/member-home.ts";
import { createMemberSteps } from "../../../src/operator/apply/member-steps.ts";
import { reconcileMembers } from "../../../src/operator/apply/reconcile-members.ts";
import { createLayoutWriter, makeLayout, readLayout } from "../../../src/operator/apply/volume-objects.ts";
import { abandon } from "../../../src/operator/csi/create/create-span.ts";
import { unpublishVolume } from "../../../src/operator/csi/publication.ts";
import { askRemoval } from "../../../src/operator/csi/remove/remove-volume.ts";
import { isMountedSince, presentMountNode } from "../../../src/operator/csi/volume-checks.ts";
import type { VolumeChanges } from "../../../src/operator/gather/cache-waits.ts";
import type { MemberCaches } from "../../../src/operator/gather/member-facts.ts";
import { newLayout } from "../../../src/operator/volumes/layout-fields.ts";
import { attachmentName, labelledHandle } from "../../../src/operator/volumes/member-objects.ts";
import { sizesOfRecords, type VolumeRecord } from "../../../src/operator/volumes/volume-record.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { createKeyedQueue } from "../../../src/platform/process/async/keyed-queue.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { CLAIM_REF, HANDLE, VOLUME_UID } from "../../builders/volume.ts";
import { filledCache } from "../../fakes/filled-cache.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";
import { isAttached } from "./span-under-test.ts";

let tested: SpanCluster;
let client: KubeClient;
beforeAll(async () => {
  tested = await startSpanCluster();
  client = tested.cluster.client;
});
beforeEach(async () => {
  await tested.cluster.stopOperator();
  await tested.cluster.startOperator();
  tested.sidecars.resume();
});
afterAll(() => tested.stop());

/** Looks once. */
const once: VolumeChanges = { until: (_handle, look) => look() };
const attachmentOf = async (handle: string, nodeName: string): Promise<VolumeAttachment | undefined> =>
  client.get(VOLUME_ATTACHMENTS, { name: attachmentName(handle, "m0", nodeName) });

/** Published to node-a, attached, mounted nowhere; the operator stands still from then on, and its CSI calls are made here. */
async function publishedAlone(): Promise<string> {
  const { handle } = await tested.span.created();
  await tested.span.publish(handle, "node-a");
  await tested.span.untilLayout("m0 is attached", handle, isAttached("m0"));
  await tested.span.report(handle, { nodeName: "node-a", mounted: false });
  await tested.cluster.stopOperator();
  return handle;
}

/** As ControllerPublishVolume leaves it. */
async function give(handle: string, nodeName: string): Promise<void> {
  const layout = await readLayout(client, handle);
  const layouts = createLayoutWriter(client);
  if (layout === undefined) throw new Error(`no layout ${handle}`);
  await layouts.update("test/give", layout, () => ({ nodeName }));
  const name = attachmentName(handle, "m0", nodeName);
  const before = await client.get(VOLUME_ATTACHMENTS, { name });
  if (before !== undefined) await client.delete("test/former", VOLUME_ATTACHMENTS, { name });
  await untilRead(
    "the former one to go",
    () => client.get(VOLUME_ATTACHMENTS, { name }),
    (one) => one === undefined,
  );
  const uid = handle.slice("fs-".length);
  await client.create("test/attach", VOLUME_ATTACHMENTS, {
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: {
      name,
      labels: { "tidemark.dev/volume-uid": uid, "tidemark.dev/fsid": fsidOf(uid), "tidemark.dev/member": "m0" },
    },
    spec: { attacher: "member.example.com", nodeName, source: { persistentVolumeName: "pv" } },
  });
}

function unpublish(through: KubeClient, volumeId: string, nodeId: string) {
  const layouts = createLayoutWriter(through);
  const limits = { releaseWaitLimitMs: 0, detachWaitLimitMs: 0 };
  return unpublishVolume({ client: through, layouts, changes: once, ...limits }, { volumeId, nodeId, secrets: {} });
}

/** Nothing is waited for between two requests of a kind: an hour passes. */
let hours = 0;
const HOURLY = { monotonicMs: () => (hours += 1) * 3_600_000 };
const placingBy = (by: KubeClient) => ({
  client: by,
  home: createMemberHome(by, { guardsRequired: false }, createLogger("test", "silent")),
});
const reconcilingBy = (by: KubeClient, caches: MemberCaches) => ({
  client: by,
  steps: createMemberSteps(placingBy(by), HOURLY),
  caches,
  layouts: createLayoutWriter(by),
  clock: systemClock,
  turns: createKeyedQueue(),
  budgetBytes: 100 * GIB,
});

describe("a volume that is published again while it is unpublished", () => {
  it("keeps the new publication's attachment, whichever read comes first", async () => {
    const handle = await publishedAlone();
    let reads = 0;
    // Between the two reads of the loop that detaches: the first one has just been made.
    const { client: through } = interposed(
      client,
      (call, before) => {
        const isTakenBack = before.includes("apply filesystemlayouts");
        if (isTakenBack && (call === "get filesystemlayouts" || call === "list volumeattachments")) reads += 1;
        return reads === 2;
      },
      () => give(handle, "node-a"),
    );
    await expect(unpublish(through, handle, "node-a")).rejects.toMatchObject({
      code: "ABORTED",
      message: expect.stringContaining("published there again concurrently"),
    });
    const kept = await attachmentOf(handle, "node-a");
    expect(kept?.metadata.uid).toBeDefined();
    expect(kept?.metadata.deletionTimestamp).toBeUndefined();
  });

  it("keeps an attachment that is made where it is given to while strays are looked for", async () => {
    const handle = await publishedAlone();
    const layouts = createLayoutWriter(client);
    const layout = await readLayout(client, handle);
    const stray = await attachmentOf(handle, "node-a");
    if (layout === undefined || stray === undefined) throw new Error(`no layout or attachment of ${handle}`);
    const taken = await layouts.update("test/take", layout, () => ({ nodeName: undefined }));
    if (taken === undefined) throw new Error("gone");
    let reads = 0;
    const { client: through } = interposed(
      client,
      (call) => {
        if (call === "get filesystemlayouts" || call === "list volumeattachments") reads += 1;
        return reads === 2;
      },
      () => give(handle, "node-b"),
    );
    const caches = cachesOf({ attachments: [stray] });
    await reconcileMembers(reconcilingBy(through, caches), taken, undefined);
    expect((await attachmentOf(handle, "node-b"))?.metadata.deletionTimestamp).toBeUndefined();
    expect(await attachmentOf(handle, "node-b")).toBeDefined();
  });
});

describe("a volume that its node has mounted", () => {
  /** Given to the node, and attached there. */
  async function expectKept(handle: string): Promise<void> {
    expect((await readLayout(client, handle))?.spec.nodeName).toBe("node-a");
    const kept = await attachmentOf(handle, "node-a");
    expect(kept).toBeDefined();
    expect(kept?.metadata.deletionTimestamp).toBeUndefined();
  }

  it("is not taken from it, neither for its own node nor for all nodes", async () => {
    const handle = await publishedAlone();
    await tested.span.report(handle, { nodeName: "node-a", mounted: true });
    for (const nodeId of ["node-a", ""])
      await expect(unpublish(client, handle, nodeId)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("still mounted on node node-a, and has not been released there"),
      });
    await expectKept(handle);
  });

  it("is not taken from it either where it is mounted between the look at it and the write", async () => {
    const handle = await publishedAlone();
    const { client: through } = interposed(
      client,
      (call) => call === "apply filesystemlayouts",
      () => tested.span.report(handle, { nodeName: "node-a", mounted: true }),
    );
    await expect(unpublish(through, handle, "node-a")).rejects.toMatchObject({
      code: "ABORTED",
      message: expect.stringContaining("was mounted on its node concurrently"),
    });
    await expectKept(handle);
  });
});

interface Cached {
  readonly claims?: readonly PersistentVolumeClaim[];
  readonly volumes?: readonly PersistentVolume[];
  readonly attachments?: readonly VolumeAttachment[];
}

const OF_VOLUME = { volume: (object: KubeObject) => [labelledHandle(object) ?? ""] };

/** Caches that show what they were given, whatever has become of it. */
function cachesOf({ claims = [], volumes = [], attachments = [] }: Cached): MemberCaches {
  const driver: CSIDriver = {
    apiVersion: "storage.k8s.io/v1",
    kind: "CSIDriver",
    metadata: { name: "member.example.com" },
    spec: { attachRequired: true },
  };
  return {
    memberClaims: filledCache(OF_VOLUME, claims),
    persistentVolumes: filledCache({}, volumes),
    attachments: filledCache(OF_VOLUME, attachments),
    csiDrivers: filledCache({}, [driver]),
  };
}

describe("an operator that still sees what was, after etcd was put back to before it", () => {
  /** Of a mounted span of 2Gi; the operator sees a target of 4Gi, which is asked for by whoever `asks`. */
  async function carriedSeeingTarget(asks: (claim: string) => Promise<void>): Promise<FilesystemLayout | undefined> {
    const { handle, claim } = await tested.span.created();
    await tested.span.publish(handle, "node-a");
    await tested.span.untilLayout("m0 is attached", handle, isAttached("m0"));
    await tested.span.report(handle, { nodeName: "node-a", mounted: true });
    await tested.cluster.stopOperator();
    const layout = await readLayout(client, handle);
    const filesystem = await client.get(FILESYSTEMS, { namespace: "shop", name: claim });
    if (layout === undefined || filesystem === undefined) throw new Error(`${handle} is not whole`);
    await asks(claim);
    const target = { size: "4Gi", from: "2Gi", epoch: 1, decidedAt: new Date().toISOString() };
    const seen = { ...filesystem, spec: { ...filesystem.spec, target } };
    const events = { record: () => undefined, flush: () => Promise.resolve() };
    const layouts = createLayoutWriter(client);
    const consolidations = {
      reserve: () => ({ node: "node-a", way: "drop" as const, end: () => undefined }),
      isPodGone: () => true,
    };
    const turns = createKeyedQueue();
    const carrying = { client, layouts, events, turns, clock: systemClock, budgetBytes: 100 * GIB, consolidations };
    await carryTarget(carrying, { layout, filesystem: seen });
    return readLayout(client, handle);
  }

  it("takes in no member for a target that nobody has decided since", async () => {
    const layout = await carriedSeeingTarget(() => Promise.resolve());
    expect(layout?.spec.members?.map(({ name }) => name)).toEqual(["m0"]);
    expect(layout?.spec.target).toBeUndefined();
  });

  it("takes in one where the target is there", async () => {
    const layout = await carriedSeeingTarget((claim) => tested.span.target(claim, "4Gi", "2Gi"));
    expect(layout?.spec.members?.map(({ name }) => name)).toEqual(["m0", "m1"]);
    expect(layout?.spec.target?.size).toBe("4Gi");
  });
});

describe("what a node is told of an attachment", () => {
  /** What the caches of an operator show that has seen the first attachment alone. */
  async function asSeenFirst(
    handle: string,
  ): Promise<{ readonly caches: MemberCaches; readonly layout: FilesystemLayout }> {
    const layout = await readLayout(client, handle);
    const attachment = await attachmentOf(handle, "node-a");
    const name = `${handle}-m0`;
    const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: MEMBER_NAMESPACE, name });
    const volume = await client.get(PERSISTENT_VOLUMES, { name: claim?.spec.volumeName ?? "" });
    if (!layout || !attachment || !claim || !volume) throw new Error(`${handle} is not whole`);
    return { layout, caches: cachesOf({ claims: [claim], volumes: [volume], attachments: [attachment] }) };
  }
  const tend = (caches: MemberCaches, layout: FilesystemLayout) =>
    reconcileMembers(reconcilingBy(client, caches), layout, undefined);
  const toldOf = async (handle: string) =>
    (await readLayout(client, handle))?.spec.members?.[0]?.source.claim?.attachment;

  /** As ControllerUnpublishVolume and ControllerPublishVolume leave it, for the same node. */
  async function publishAnew(handle: string): Promise<void> {
    // Where the attacher has not taken it off yet the call says that it goes on.
    await unpublish(client, handle, "node-a").catch((error: unknown) =>
      expect(error).toMatchObject({ code: "ABORTED" }),
    );
    await untilRead(
      "it to be detached",
      () => attachmentOf(handle, "node-a"),
      (one) => one === undefined,
    );
    await give(handle, "node-a");
  }

  it("is not of the last publication to the same node, where the layout that was decided on is from before", async () => {
    const handle = await publishedAlone();
    const { caches, layout } = await asSeenFirst(handle);
    tested.sidecars.attaches = false;
    await publishAnew(handle);
    await tend(caches, layout);
    expect(await toldOf(handle)).toBeUndefined();
  });

  it("is not of the last publication, where only the attachment that is seen is from before", async () => {
    const handle = await publishedAlone();
    const { caches } = await asSeenFirst(handle);
    tested.sidecars.attaches = false;
    await publishAnew(handle);
    const layout = await readLayout(client, handle);
    if (layout === undefined) throw new Error("gone");
    const { waiting } = await tend(caches, layout);
    expect(await toldOf(handle)).toBeUndefined();
    expect(waiting.join()).toContain("its VolumeAttachment to be seen as it is");
  });

  it("is not of the last publication, where it is published again between the look at the attachment and the write", async () => {
    const handle = await publishedAlone();
    const { caches, layout } = await asSeenFirst(handle);
    tested.sidecars.attaches = false;
    const unreported = await createLayoutWriter(client).update("test/untold", layout, ({ spec }) => ({
      members: (spec.members ?? []).map((one) => ({ ...one, source: { claim: { name: `${handle}-m0` } } })),
    }));
    if (unreported === undefined) throw new Error("gone");
    const { client: through } = interposed(
      client,
      (call) => call === "apply filesystemlayouts",
      () => publishAnew(handle),
    );
    await reconcileMembers(reconcilingBy(through, caches), unreported, undefined);
    expect(await toldOf(handle)).toBeUndefined();
  });
});

const record: VolumeRecord = {
  handle: HANDLE,
  volumeUID: VOLUME_UID,
  fsid: fsidOf(VOLUME_UID),
  backend: "span",
  volumeMode: "Filesystem",
  fsType: "btrfs",
  nodeName: undefined,
  ...sizesOfRecords(undefined),
  memberRules: undefined,
  logicalVolume: undefined,
  claim: CLAIM_REF,
};
const member = (name: string) => ({ name, size: "2Gi", state: "Present" as const, source: { claim: { name } } });

describe("a layout that exists", () => {
  it("is never overwritten by one that is made", async () => {
    const first = await makeLayout(client, "test/make", newLayout(record, [member("m0"), member("m1")]));
    expect(first?.spec.members).toHaveLength(2);
    expect(await makeLayout(client, "test/make", newLayout(record, [member("m7")]))).toBeUndefined();
    expect((await readLayout(client, HANDLE))?.spec).toEqual(first?.spec);
    await client.delete("test/drop", FILESYSTEM_LAYOUTS, { name: HANDLE });
  });

  it("is not overwritten either where it is made between two steps of another's making", async () => {
    const mine = newLayout(record, [member("m0"), member("m1")]);
    const between = interposed(
      client,
      (call) => call === "apply filesystemlayouts",
      async () => void (await makeLayout(client, "test/make", mine)),
    );
    expect(await makeLayout(between.client, "test/make", newLayout(record, [member("m7")]))).toBeUndefined();
    expect((await readLayout(client, HANDLE))?.spec.members?.map(({ name }) => name)).toEqual(["m0", "m1"]);
    await client.delete("test/drop", FILESYSTEM_LAYOUTS, { name: HANDLE });
  });

  it("has the fields of its maker alone: what the next write leaves out is gone", async () => {
    const made = await makeLayout(client, "test/make", newLayout(record, [member("m0"), member("m1")]));
    if (made === undefined) throw new Error("not made");
    const layouts = createLayoutWriter(client);
    await layouts.update("test/leave", made, ({ spec }) => ({ members: (spec.members ?? []).slice(0, 1) }));
    expect((await readLayout(client, HANDLE))?.spec.members?.map(({ name }) => name)).toEqual(["m0"]);
    await client.delete("test/drop", FILESYSTEM_LAYOUTS, { name: HANDLE });
  });

  it("is filled in where a crash has left its name alone", async () => {
    const died = interposed(
      client,
      (call) => call === "apply filesystemlayouts",
      () => Promise.reject(new Error("died")),
    );
    await expect(makeLayout(died.client, "test/make", newLayout(record, [member("m0")]))).rejects.toThrow("died");
    expect(await readLayout(client, HANDLE)).toBeUndefined();
    expect((await makeLayout(client, "test/make", newLayout(record, [member("m0")])))?.spec.members).toHaveLength(1);
    await client.delete("test/drop", FILESYSTEM_LAYOUTS, { name: HANDLE });
  });
});

describe("a volume that is decided to go", () => {
  it("stays where it has been published since", async () => {
    const { handle } = await tested.span.created();
    const layout = await readLayout(client, handle);
    if (layout === undefined) throw new Error("gone");
    const { client: through } = interposed(
      client,
      (call) => call === "apply filesystemlayouts",
      async () => void (await tested.span.publish(handle, "node-a")),
    );
    const layouts = createLayoutWriter(through);
    const parts = { ...placingBy(through), layouts, changes: once, turns: createKeyedQueue(), memberWaitLimitMs: 0 };
    await abandon({ ...parts, budgetBytes: GIB }, layout);
    const kept = await tested.span.layout(handle);
    expect(kept?.spec).toMatchObject({ nodeName: "node-a", members: [{ state: "Present" }] });
    expect(await tested.span.claims(handle)).toEqual([`${handle}-m0`]);
  });

  it("stays where its node has said since that it is mounted", async () => {
    const { handle } = await tested.span.created();
    await tested.span.publish(handle, "node-a");
    const layout = await tested.span.untilLayout("m0 is attached", handle, isAttached("m0"));
    expect(await presentMountNode(client, layout)).toBeUndefined();
    await tested.span.report(handle, { nodeName: "node-a", mounted: true });
    const asked = await askRemoval(createLayoutWriter(client), layout, (now) => !isMountedSince(layout, now));
    expect(asked?.spec.members?.map(({ state }) => state)).toEqual(["Present"]);
  });

  it("is published to nobody any more", async () => {
    const { handle } = await tested.span.created();
    tested.sidecars.detaches = false;
    await tested.span.publish(handle, "node-a");
    await tested.span.untilLayout("m0 is attached", handle, isAttached("m0"));
    await expect(tested.span.remove(handle)).rejects.toMatchObject({ code: status.ABORTED });
    await expect(tested.span.publish(handle, "node-a")).rejects.toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: expect.stringContaining("is being deleted"),
    });
  });
});
