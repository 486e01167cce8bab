import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES } from "../../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../../src/contracts/names.ts";
import { buildClaim, type ClaimFields } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage, startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(async () => {
  await cluster.stop();
});

const namespace = "default";
const readClaim = (name: string) => () => cluster.client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });

async function createClass(
  name: string,
  parameters: Record<string, string>,
  allowVolumeExpansion = true,
): Promise<void> {
  await cluster.client.create("test/create-class", STORAGE_CLASSES, {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name },
    provisioner: LOCAL_DRIVER,
    parameters,
    allowVolumeExpansion,
    reclaimPolicy: "Delete",
  });
}

async function refused(fields: ClaimFields, text: string): Promise<string | undefined> {
  await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, buildClaim(fields));
  const message = await eventMessage(cluster.client, fields.name, "ProvisioningFailed", text);
  const claim = await readClaim(fields.name)();
  expect(claim?.status?.phase).not.toBe("Bound");
  expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: `fs-${claim?.metadata.uid}` })).toBeUndefined();
  return message;
}

describe("a claim that cannot be provisioned says why in an Event of its own", () => {
  const classes: [string, Record<string, string>, string][] = [
    ["unknown-parameter", { backend: "loop", intialSize: "1Gi" }, "unknown StorageClass parameters intialSize"],
    ["unknown-backend", { backend: "zfs" }, 'parameter backend is "zfs"; this version has: loop, lvm'],
    ["class-of-loop", { backend: "loop", deviceClass: "ssd" }, "parameter deviceClass is for the backend lvm"],
    ["bad-class", { backend: "lvm", deviceClass: "ssd/../x" }, 'parameter deviceClass is "ssd/../x"'],
    ["no-report", { backend: "lvm" }, "node node-1 has not reported its default device class yet"],
    ["no-backend", {}, "the StorageClass has no parameter backend"],
    ["bad-size", { backend: "loop", initialSize: "1GB" }, 'parameter initialSize: "1GB" is not a quantity'],
    [
      "initial-over-request",
      { backend: "loop", initialSize: "20Gi" },
      "initialSize of 20Gi is over the request of 10Gi",
    ],
    ["request-over-max", { backend: "loop", maxSize: "5Gi" }, "10Gi is over the StorageClass' maxSize of 5Gi"],
    ["too-small", { backend: "loop", initialSize: "16Mi" }, "16Mi is too small for btrfs, which needs at least 256Mi"],
    [
      "bad-type",
      { backend: "loop", "csi.storage.k8s.io/fstype": "ntfs" },
      'filesystem type "ntfs"; there are: btrfs, ext4, xfs',
    ],
  ];
  it.each(classes)(
    "a class with %s",
    async (name, parameters, expected) => {
      await createClass(name, parameters);
      const message = await refused({ name, storageClassName: name }, expected);
      expect(message).toContain(`failed to provision volume with StorageClass "${name}": rpc error: code = `);
    },
    60_000,
  );

  const claims: [string, NonNullable<ClaimFields["spec"]>, string][] = [
    ["many-nodes", { accessModes: ["ReadWriteMany"] }, "access mode MULTI_NODE_MULTI_WRITER"],
    ["raw-block", { volumeMode: "Block" }, "use volumeMode: Filesystem"],
    [
      "from-snapshot",
      { dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "s" } },
      'there is no "s" to copy',
    ],
    ["no-such-class", { storageClassName: "nowhere" }, 'storageclass.storage.k8s.io "nowhere" not found'],
  ];
  it.each(claims)(
    "a claim that asks for %s",
    async (name, spec, expected) => {
      expect(await refused({ name, spec }, expected)).toContain(expected);
    },
    60_000,
  );

  it("and is provisioned once its class is mended", async () => {
    await createClass("mended", { backend: "nope" });
    await refused({ name: "waiting", storageClassName: "mended" }, 'parameter backend is "nope"');
    await cluster.client.delete("test/delete-class", STORAGE_CLASSES, { name: "mended" });
    await createClass("mended", { backend: "loop" });
    await untilRead("it is bound", readClaim("waiting"), (claim) => claim?.status?.phase === "Bound");
  });
});

describe("a bound claim", () => {
  async function provision(name: string, storageClassName?: string): Promise<void> {
    const claim = buildClaim({ name, ...(storageClassName === undefined ? {} : { storageClassName }) });
    await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, claim);
    await untilRead(`${name} is bound`, readClaim(name), (one) => one?.status?.phase === "Bound");
  }
  const request = (name: string, storage: string) =>
    cluster.client.mergePatch(
      "test/request",
      PERSISTENT_VOLUME_CLAIMS,
      { namespace, name },
      {
        spec: { resources: { requests: { storage } } },
      },
    );

  it("whose request is raised over the class' maxSize keeps its capacity and is told", async () => {
    await createClass("limited", { backend: "loop", maxSize: "20Gi" });
    await provision("over-max", "limited");
    await request("over-max", "30Gi");
    const expected = "the request of 30Gi is over the StorageClass' maxSize of 20Gi";
    await eventMessage(cluster.client, "over-max", "VolumeResizeFailed", expected);
    expect((await readClaim("over-max")())?.status?.capacity?.storage).toBe("10Gi");
  });

  it("of a class without expansion is refused a larger request", async () => {
    await createClass("fixed", { backend: "loop" }, false);
    await provision("fixed", "fixed");
    await expect(request("fixed", "12Gi")).rejects.toMatchObject({ reason: "Forbidden" });
  });

  it("whose class takes expansion back before the driver heard of the request is told so", async () => {
    await createClass("retracted", { backend: "loop" });
    await provision("retracted", "retracted");
    await cluster.stopOperator();
    await request("retracted", "12Gi");
    await cluster.client.delete("test/delete-class", STORAGE_CLASSES, { name: "retracted" });
    await createClass("retracted", { backend: "loop" }, false);
    const expected = 'StorageClass "retracted" does not allow volume expansion';
    expect(await eventMessage(cluster.client, "retracted", "VolumeResizeFailed", expected)).toBe(expected);
    await cluster.startOperator();
  });

  it("that cannot be mounted is told by the node's own words, and is mounted when that is over", async () => {
    cluster.node.refuseWith = "SignatureFound: /dev/loop9 carries an ext4 signature";
    await provision("unmountable");
    await eventMessage(cluster.client, "unmountable", "FailedMount", cluster.node.refuseWith);
    cluster.node.refuseWith = undefined;
    const handle = `fs-${(await readClaim("unmountable")())?.metadata.uid}`;
    await untilRead(
      "published",
      async () => cluster.node.published.has(handle),
      (is) => is,
    );
  });
});
