// What the operator says of a Filesystem to which somebody has written right before it, or which is another one by then.
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/api/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/api/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/api/names.ts";
import type { Node } from "../../../src/kube/resources.ts";
import { writeFilesystem } from "../../../src/operator/volume/filesystem-writer.ts";
import { createLayoutWriter } from "../../../src/operator/volume/layout-writer.ts";
import { reconcileVolume, type VolumeReconciling } from "../../../src/operator/volume/reconcile-volume.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { buildLayout, VOLUME_UID } from "../../builders/filesystem-layout.ts";
import { type InterposedClient, interposed } from "../../fakes/interposed-client.ts";
import { type ApiServer, startApiServer } from "./api-server.ts";

const NAME = { namespace: "default", name: "data" };
const NODE: Node = { apiVersion: "v1", kind: "Node", metadata: { name: "node-a" }, spec: {} };
const CLAIM = { ...NAME, uid: VOLUME_UID };
const { metadata, spec } = buildLayout({ claimRef: CLAIM });
let server: ApiServer;
let layout: FilesystemLayout;
let filesystem: Filesystem;
beforeAll(async () => {
  server = await startApiServer("node-a");
  layout = await server.client.create("test/layout", FILESYSTEM_LAYOUTS, {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: metadata.name },
    spec,
  });
}, 60_000);
beforeEach(async () => {
  await server.client.delete("test/filesystem", FILESYSTEMS, NAME);
  filesystem = await writeFilesystem(server.client, CLAIM, false);
});
afterAll(() => server.stop(), 60_000);

/** Of an operator whose caches show what the test has put there; `act` comes right before its status. */
function lookAfter(act: () => Promise<unknown>): { late: InterposedClient; look: () => Promise<unknown> } {
  const late = interposed(server.client, (call) => call === "apply filesystems", act);
  const caches = {
    layouts: { store: { get: () => layout } },
    filesystems: { store: { get: () => filesystem } },
    persistentVolumes: { store: { byIndex: () => [] } },
    nodes: { store: { get: () => NODE } },
  };
  const consolidations = { needOf: () => undefined, unfitOf: () => undefined };
  const layouts = createLayoutWriter(late.client);
  const reconciling = { client: late.client, caches, layouts, clock: systemClock, consolidations };
  return {
    late,
    look: () => reconcileVolume(reconciling as unknown as VolumeReconciling, metadata.name),
  };
}

const live = (): Promise<Filesystem | undefined> => server.client.get(FILESYSTEMS, NAME);

/** As the operator that leads by then. */
async function sayElsewhere(): Promise<Filesystem> {
  const object = { apiVersion: API_VERSION, kind: "Filesystem", metadata: NAME, status: { nodeName: "node-b" } };
  const options = { fieldManager: FIELD_MANAGERS.operator, force: true, subresource: "status" } as const;
  return server.client.apply("test/status", FILESYSTEMS, object, options);
}

it("is not said over what another operator has said since: the change has it looked at again", async () => {
  const { late, look } = lookAfter(sayElsewhere);
  expect(await look()).toBe("done");
  expect(late.calls).toEqual(["apply filesystems"]);
  expect((await live())?.status).toEqual({ nodeName: "node-b" });
  // What the caches show then.
  filesystem = (await live()) as Filesystem;
  await look();
  expect((await live())?.status).toMatchObject({ nodeName: "node-a", volumeHandle: metadata.name });
});

it("is not said of a Filesystem that was deleted and made again", async () => {
  const former = filesystem;
  const { look } = lookAfter(async () => {
    await server.client.delete("test/filesystem", FILESYSTEMS, NAME);
    await writeFilesystem(server.client, CLAIM, false);
  });
  expect(await look()).toBe("done");
  expect((await live())?.metadata.uid).not.toBe(former.metadata.uid);
  expect((await live())?.status).toBeUndefined();
});
