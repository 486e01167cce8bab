import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { fsidOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../../src/contracts/kubernetes/resources.ts";
import { FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { buildClaim } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(async () => {
  await cluster.stop();
});

const namespace = "default";
const readClaim = (name: string) => () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
const readFilesystem = (name: string) => () => cluster.client.get(FILESYSTEMS, { namespace, name });
const readLayout = (handle: string) => () => cluster.client.get(FILESYSTEM_LAYOUTS, { name: handle });

async function provision(name: string, fields = {}): Promise<{ handle: string; uid: string }> {
  await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, buildClaim({ name, ...fields }));
  const claim = await untilRead(`${name} is bound`, readClaim(name), (one) => one?.status?.phase === "Bound");
  const uid = claim?.metadata.uid ?? "";
  return { handle: `fs-${uid}`, uid };
}

async function provisionMounted(name: string): Promise<{ handle: string; uid: string }> {
  const volume = await provision(name);
  await untilRead(`${name} is Ready`, readFilesystem(name), (one) => one?.status?.capacity === "1Gi");
  return volume;
}

describe("a claim of the loop class", () => {
  it("is bound to a volume of exactly its request, staged, published, and shown as a Filesystem", async () => {
    const { handle, uid } = await provisionMounted("data");
    const claim = await readClaim("data")();
    expect(claim?.status?.capacity?.storage).toBe("10Gi");

    const volume = await cluster.client.get(PERSISTENT_VOLUMES, { name: `pvc-${uid}` });
    expect(volume?.spec.capacity?.storage).toBe("10Gi");
    expect(volume?.spec.csi?.volumeHandle).toBe(handle);
    expect(volume?.spec.csi?.volumeAttributes).toEqual({
      "tidemark.dev/volume-uid": uid,
      "tidemark.dev/fsid": fsidOf(uid),
      "tidemark.dev/fs-type": "btrfs",
      "tidemark.dev/backend": "loop",
      "tidemark.dev/initial-size": "1Gi",
      "tidemark.dev/requested-size": "10Gi",
    });

    const layout = await readLayout(handle)();
    expect(layout?.spec).toEqual({
      claimRef: { namespace, name: "data", uid },
      volumeUID: uid,
      backend: "loop",
      fsType: "btrfs",
      nodeName: NODE_NAME,
      members: [{ name: "m0", size: "1Gi", state: "Present", source: { loop: { file: `${handle}-0.img` } } }],
    });

    const filesystem = await readFilesystem("data")();
    expect(filesystem?.spec).toEqual({ claimRef: { name: "data", uid } });
    expect(filesystem?.status).toMatchObject({ capacity: "1Gi", volumeHandle: handle, nodeName: NODE_NAME });
    const conditions = new Map(filesystem?.status?.conditions?.map(({ type, status }) => [type, status]));
    expect(Object.fromEntries(conditions)).toEqual({ Ready: "True", Reconciling: "False", Stalled: "False" });
    await untilRead(
      "it is published",
      async () => cluster.node.published.get(handle),
      (path) => path !== undefined,
    );
    expect(cluster.node.published.get(handle)).toContain(`/pods/${uid}/volumes/kubernetes.io~csi/pvc-${uid}/mount`);
  });

  it("grows when the policy-engine raises the Filesystem's target", async () => {
    const { handle } = await provisionMounted("grown");
    const target = { size: "2Gi", from: "1Gi", epoch: 7, decidedAt: "2030-01-01T00:00:00.123Z" };
    await applyTarget("grown", target);
    const layout = await untilRead("the layout has the target", readLayout(handle), (one) => !!one?.spec.target);
    expect(layout?.spec.target).toEqual(target);
    await untilRead("the capacity follows", readFilesystem("grown"), (one) => one?.status?.capacity === "2Gi");
  });

  it("carries the trims that the policy-engine asks for to the layout, and what the node says of one to the Filesystem", async () => {
    const { handle } = await provisionMounted("trimmed");
    const target = { size: "2Gi", from: "1Gi", epoch: 7, decidedAt: "2030-01-01T00:00:00.123Z" };
    await applyWish("trimmed", { target, trim: { every: "24h" } });
    const asked = await untilRead(
      "the layout has both",
      readLayout(handle),
      (one) => !!one?.spec.trim && !!one.spec.target,
    );
    expect(asked?.spec).toMatchObject({ target, trim: { every: "24h" } });
    const lastTrim = { endedAt: "2030-01-02T00:00:00Z", trimmed: "3Gi" };
    await cluster.client.apply(
      "test/trimmed",
      FILESYSTEM_LAYOUTS,
      {
        apiVersion: "tidemark.dev/v1alpha1",
        kind: "FilesystemLayout",
        metadata: { name: handle },
        status: { lastTrim },
      },
      { fieldManager: "test", subresource: "status" },
    );
    const told = await untilRead("it is told", readFilesystem("trimmed"), (one) => !!one?.status?.lastTrim);
    expect(told?.status?.lastTrim).toEqual(lastTrim);
    await applyWish("trimmed", { target });
    const left = await untilRead("the layout has none", readLayout(handle), (one) => one?.spec.trim === undefined);
    expect(left?.spec).toMatchObject({ target, backend: "loop", nodeName: NODE_NAME });
  });

  it("refuses a target of a deposed leader, and says so on the Filesystem", async () => {
    const { handle } = await provisionMounted("deposed");
    const newer = { size: "2Gi", from: "1Gi", epoch: 9, decidedAt: "2030-01-01T00:00:00.000Z" };
    await applyTarget("deposed", newer);
    await untilRead("the layout has the target", readLayout(handle), (one) => one?.spec.target?.epoch === 9);
    // A Filesystem that was made again has forgotten the epoch; the layout has not.
    const filesystem = await readFilesystem("deposed")();
    await cluster.client.delete("test/delete-filesystem", FILESYSTEMS, { namespace, name: "deposed" });
    await untilRead(
      "it is rebuilt",
      readFilesystem("deposed"),
      (one) => !!one && one.metadata.uid !== filesystem?.metadata.uid,
    );
    await applyTarget("deposed", { size: "8Gi", from: "2Gi", epoch: 3, decidedAt: "2030-01-02T00:00:00.000Z" });
    const stalled = await untilRead("it is Stalled", readFilesystem("deposed"), (one) =>
      (one?.status?.conditions ?? []).some(({ type, status }) => type === "Stalled" && status === "True"),
    );
    const condition = stalled?.status?.conditions?.find(({ type }) => type === "Stalled");
    expect(condition?.reason).toBe("StaleEpoch");
    expect(condition?.message).toContain("epoch 3");
    expect((await readLayout(handle)())?.spec.target).toEqual(newer);
  });

  it("is grown at once to a raised request, and its capacity is exactly the request", async () => {
    const { handle } = await provisionMounted("raised");
    await cluster.client.mergePatch(
      "test/raise",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name: "raised" },
      {
        spec: { resources: { requests: { storage: "12Gi" } } },
      },
    );
    const claim = await untilRead("capacity", readClaim("raised"), (one) => one?.status?.capacity?.storage === "12Gi");
    expect(claim?.spec.resources?.requests?.storage).toBe("12Gi");
    const layout = await readLayout(handle)();
    expect(layout?.spec.target).toMatchObject({ size: "12Gi", from: "1Gi", epoch: 0 });
    await untilRead("the filesystem", readFilesystem("raised"), (one) => one?.status?.capacity === "12Gi");
  });

  it("is not mounted while its annotation says that no pod uses it", async () => {
    const { handle } = await provision("unmounted", { annotations: { "standalone.tidemark.dev/mount": "false" } });
    expect(cluster.node.staged.has(handle)).toBe(false);
    await cluster.client.mergePatch(
      "test/annotate",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name: "unmounted" },
      {
        metadata: { annotations: { "standalone.tidemark.dev/mount": null } },
      },
    );
    await untilRead(
      "published",
      async () => cluster.node.published.has(handle),
      (is) => is,
    );
    await cluster.client.mergePatch(
      "test/annotate",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name: "unmounted" },
      {
        metadata: { annotations: { "standalone.tidemark.dev/mount": "false" } },
      },
    );
    await untilRead(
      "unstaged",
      async () => cluster.node.staged.has(handle),
      (is) => !is,
    );
  });
});

describe("a deleted claim", () => {
  it("takes its volume, its objects and its data with it", async () => {
    const { handle, uid } = await provisionMounted("gone");
    await untilRead(
      "it is published",
      async () => cluster.node.published.has(handle),
      (is) => is,
    );
    expect(existsSync(join(cluster.kubeletDirectory, "pods", uid))).toBe(true);
    await cluster.client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "gone" });
    const volumeName = { name: `pvc-${uid}` };
    await untilRead(
      "volume",
      () => cluster.client.get(PERSISTENT_VOLUMES, volumeName),
      (one) => one === undefined,
    );
    expect(await readClaim("gone")()).toBeUndefined();
    expect(await readLayout(handle)()).toBeUndefined();
    expect(await readFilesystem("gone")()).toBeUndefined();
    expect(cluster.node.memberBytes.has(handle)).toBe(false);
    expect(cluster.node.staged.has(handle)).toBe(false);
    expect(existsSync(join(cluster.kubeletDirectory, "pods", uid))).toBe(false);
  });

  it("keeps its data where the reclaim policy is Retain", async () => {
    const { handle, uid } = await provisionMounted("kept");
    const volumeName = { name: `pvc-${uid}` };
    await cluster.client.mergePatch("test/retain", PERSISTENT_VOLUMES, volumeName, {
      spec: { persistentVolumeReclaimPolicy: "Retain" },
    });
    await cluster.client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "kept" });
    await untilRead(
      "the volume is released",
      () => cluster.client.get(PERSISTENT_VOLUMES, volumeName),
      (one) => one?.status?.phase === "Released",
    );
    await untilRead("its Filesystem is collected", readFilesystem("kept"), (one) => one === undefined);
    expect(await readLayout(handle)()).toBeDefined();
    expect(cluster.node.memberBytes.has(handle)).toBe(true);
  });
});

function applyTarget(name: string, target: object): Promise<void> {
  return applyWish(name, { target });
}

async function applyWish(name: string, spec: object): Promise<void> {
  await cluster.client.apply(
    "test/target",
    FILESYSTEMS,
    { apiVersion: "tidemark.dev/v1alpha1", kind: "Filesystem", metadata: { namespace, name }, spec },
    { fieldManager: FIELD_MANAGERS.policyEngine },
  );
}
