import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES } from "../../../src/contracts/kubernetes/resources.ts";
import { LOCAL_DRIVER } from "../../../src/contracts/names.ts";
import { buildClaim } from "../../builders/claim.ts";
import { untilRead } from "../../harness/wait-for.ts";
import { eventMessage, NODE_NAME, startTestCluster, type TestCluster } from "./cluster.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster();
});
afterAll(async () => {
  await cluster.stop();
});

const namespace = "default";
const readFilesystem = (name: string) => () => cluster.client.get(FILESYSTEMS, { namespace, name });
const readLayouts = async () => (await cluster.client.list(FILESYSTEM_LAYOUTS)).items;
const readFilesystems = async () => (await cluster.client.list(FILESYSTEMS)).items;

async function provision(name: string): Promise<void> {
  await cluster.client.create("test/create-claim", PERSISTENT_VOLUME_CLAIMS, buildClaim({ name }));
  await untilRead(`${name} is Ready`, readFilesystem(name), (one) => one?.status?.capacity === "1Gi");
}

async function deleteEverything(): Promise<void> {
  for (const { metadata } of await readFilesystems())
    await cluster.client.delete("test/delete-filesystem", FILESYSTEMS, metadata);
  for (const { metadata } of await readLayouts())
    await cluster.client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: metadata.name });
}

/** What must survive: identity, intent and what was recorded; not the server's own bookkeeping. */
function essence(object: Filesystem | FilesystemLayout) {
  const { name, namespace: inNamespace, annotations, ownerReferences } = object.metadata;
  return { name, namespace: inNamespace, annotations, ownerReferences, spec: object.spec };
}

/** A rebuilt layout does not repeat the size that the member was made with: it is as found on the node. */
function asFound(layout: FilesystemLayout) {
  const members = layout.spec.members?.map(({ size: _asOrdered, ...member }) => member);
  return { ...essence(layout), spec: { ...layout.spec, members } };
}

const byName = <T extends { name: string }>(all: T[]): T[] => all.sort((a, b) => (a.name < b.name ? -1 : 1));

describe("objects that somebody has deleted", () => {
  it("all come back while the operator runs, and no data is touched", async () => {
    await provision("first");
    await provision("second");
    const filesystems = byName((await readFilesystems()).map(essence));
    const layouts = byName((await readLayouts()).map(asFound));
    const uids = new Set([...(await readFilesystems()), ...(await readLayouts())].map(({ metadata }) => metadata.uid));
    const members = new Map(cluster.node.memberBytes);

    const isNew = ({ metadata }: Filesystem | FilesystemLayout): boolean => !uids.has(metadata.uid);

    await deleteEverything();
    const rebuilt = await untilRead("new Filesystems", readFilesystems, (all) => all.length === 2 && all.every(isNew));
    const isFilled = (layout: FilesystemLayout): boolean => isNew(layout) && layout.spec.backend !== undefined;
    const found = await untilRead("new layouts", readLayouts, (all) => all.length === 2 && all.every(isFilled));
    expect(byName(rebuilt.map(essence))).toEqual(filesystems);
    expect(byName(found.map(essence))).toEqual(layouts);
    await untilRead("the capacity as found", readFilesystem("first"), (one) => one?.status?.capacity === "1Gi");
    expect(cluster.node.memberBytes).toEqual(members);
    await eventMessage(cluster.client, "first", "Rebuilt", "from PersistentVolume pvc-");
  });

  it("come back at the next start when the operator was not there to see it", async () => {
    await cluster.stopOperator();
    const before = byName((await readFilesystems()).map(essence));
    await deleteEverything();
    expect(await readFilesystems()).toEqual([]);
    await cluster.startOperator();
    await untilRead("all Filesystems", readFilesystems, (all) => all.length === before.length);
    await untilRead("all layouts", readLayouts, (all) => all.length === before.length);
    expect(byName((await readFilesystems()).map(essence))).toEqual(before);
  });

  it("do not come back once their claim is deleted", async () => {
    await provision("leaving");
    await cluster.client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "leaving" });
    await untilRead("it is gone", readFilesystem("leaving"), (one) => one === undefined);
    // The collector takes the Filesystem; the layout goes when the volume is deleted.
    await untilRead("its layout is gone", readLayouts, (all) =>
      all.every(({ spec }) => spec.claimRef?.name !== "leaving"),
    );
    await provision("later"); // by then the operator has seen all of it
    expect(await readFilesystem("leaving")()).toBeUndefined();
    expect((await readLayouts()).map(({ spec }) => spec.claimRef?.name).sort()).toEqual(["first", "later", "second"]);
  });

  it("are deleted with their data when the layout was lost before the claim went", async () => {
    await provision("lost");
    const handle = (await readFilesystem("lost")())?.status?.volumeHandle ?? "";
    await cluster.stopOperator();
    await cluster.client.delete("test/delete-layout", FILESYSTEM_LAYOUTS, { name: handle });
    await cluster.client.delete("test/delete-claim", PERSISTENT_VOLUME_CLAIMS, { namespace, name: "lost" });
    await cluster.startOperator();
    await untilRead(
      "its member is gone",
      async () => cluster.node.memberBytes.has(handle),
      (has) => !has,
    );
    await untilRead("its layout is gone", readLayouts, (all) => !all.some(({ metadata }) => metadata.name === handle));
  });

  it("stall as MembersMissing when the record on the volume is incomplete, and nothing is guessed", async () => {
    const claim = await cluster.client.create(
      "test/create-claim",
      PERSISTENT_VOLUME_CLAIMS,
      buildClaim({ name: "partial", storageClassName: "elsewhere", spec: { volumeName: "by-hand" } }),
    );
    await cluster.client.create("test/create-volume", PERSISTENT_VOLUMES, {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "by-hand" },
      spec: {
        capacity: { storage: "10Gi" },
        accessModes: ["ReadWriteOnce"],
        persistentVolumeReclaimPolicy: "Retain",
        claimRef: { namespace, name: "partial", uid: claim.metadata.uid },
        csi: {
          driver: LOCAL_DRIVER,
          volumeHandle: `fs-${claim.metadata.uid}`,
          volumeAttributes: { "tidemark.dev/volume-uid": claim.metadata.uid ?? "", "tidemark.dev/backend": "loop" },
        },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: "topology.tidemark.dev/node", operator: "In", values: [NODE_NAME] }] },
            ],
          },
        },
      },
    });
    const bound = { status: { phase: "Bound" } };
    await cluster.client.mergePatch("test/bind", PERSISTENT_VOLUMES, { name: "by-hand" }, bound, "status");
    const filesystem = await untilRead("its condition", readFilesystem("partial"), (one) => !!one?.status?.conditions);
    const stalled = filesystem?.status?.conditions?.find(({ type }) => type === "Stalled");
    expect(stalled).toMatchObject({ status: "True", reason: "MembersMissing" });
    expect(stalled?.message).toContain("lacks: tidemark.dev/fsid, tidemark.dev/fs-type");
    expect(filesystem?.status?.capacity).toBeUndefined();
    expect(await cluster.client.get(FILESYSTEM_LAYOUTS, { name: `fs-${claim.metadata.uid}` })).toBeUndefined();
  });
});
