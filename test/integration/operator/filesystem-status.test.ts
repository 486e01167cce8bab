// What the operator says of a Filesystem to which somebody has written right before it, or which is another one by then.
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import type { Node } from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { createLayoutWriter, writeFilesystem } from "../../../src/operator/apply/volume-objects.ts";
import {
  createVolumePhases,
  reconcileVolume,
  type VolumePorts,
} from "../../../src/operator/volumes/reconcile-volume.ts";
import type { ReadableStore } from "../../../src/platform/kube/cache/store.ts";
import { createOwnWrites } from "../../../src/platform/kube/client/writes.ts";
import { createWorkQueue, type Outcome } from "../../../src/platform/kube/queue/work-queue.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { buildLayout, VOLUME_UID } from "../../builders/filesystem-layout.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { filledCache } from "../../fakes/filled-cache.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { untilRead } from "../../harness/wait-for.ts";
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
});
beforeEach(async () => {
  await server.client.delete("test/filesystem", FILESYSTEMS, NAME);
  filesystem = await writeFilesystem(server.client, CLAIM, false);
});
afterAll(() => server.stop());

/** Of an operator whose caches show what the test has put there; `act` comes right before each of the first `times` of its statuses. */
function lookAfter(act: () => Promise<unknown>, times = 1): { look: () => Promise<Outcome> } {
  const late = interposed(server.client, (call) => call === "apply filesystems", act, times);
  const caches = doubleOf<VolumePorts["caches"]>("VolumeCaches", {
    layouts: filledCache({}, [layout]),
    // The case changes it between two looks.
    filesystems: {
      ...filledCache<Filesystem>(),
      store: doubleOf<ReadableStore<Filesystem>>("Filesystems", { get: () => filesystem }),
    },
    persistentVolumes: filledCache({ handle: () => [] }),
    nodes: filledCache({}, [NODE]),
  });
  const consolidations = doubleOf<VolumePorts["consolidations"]>("Consolidations", {
    needOf: () => undefined,
    unfitOf: () => undefined,
  });
  const layouts = createLayoutWriter(late.client);
  const ownWrites = createOwnWrites<Filesystem>(systemClock);
  const events = { record: () => undefined, flush: async () => undefined };
  const parts = { client: late.client, caches, layouts, events, clock: systemClock, consolidations, ownWrites };
  const ports = doubleOf<VolumePorts>("VolumePorts", parts);
  return {
    look: () => reconcileVolume(createVolumePhases(ports), metadata.name),
  };
}

const live = (): Promise<Filesystem | undefined> => server.client.get(FILESYSTEMS, NAME);

/** As the operator that leads by then. */
async function sayElsewhere(): Promise<Filesystem> {
  const object = { apiVersion: API_VERSION, kind: "Filesystem", metadata: NAME, status: { nodeName: "node-b" } };
  const options = { fieldManager: FIELD_MANAGERS.operator, force: true, subresource: "status" } as const;
  return server.client.apply("test/status", FILESYSTEMS, object, options);
}

/** As the policy-engine that leads: another plan each time. */
function reportPlans(): () => Promise<Filesystem> {
  let plans = 0;
  return () => {
    plans += 1;
    const scaling = { plan: "hold", reason: "CoolingDown", message: `plan ${plans}` } as const;
    const object = { apiVersion: API_VERSION, kind: "Filesystem", metadata: NAME, status: { scaling } };
    const options = { fieldManager: FIELD_MANAGERS.policyEngine, force: true, subresource: "status" } as const;
    return server.client.apply("test/plan", FILESYSTEMS, object, options);
  };
}

/** As the policy-engine that leads: the same size each time, decided later. */
function decideTargets(): () => Promise<Filesystem> {
  let decided = 0;
  return () => {
    decided += 1;
    const decidedAt = new Date(Date.parse("2030-01-01T00:00:00Z") + decided).toISOString();
    const target = { size: "2Gi", from: "1Gi", epoch: 1, decidedAt };
    const object = { apiVersion: API_VERSION, kind: "Filesystem", metadata: NAME, spec: { target } };
    return server.client.apply("test/target", FILESYSTEMS, object, { fieldManager: FIELD_MANAGERS.policyEngine });
  };
}

it("is said in one look, however often the policy-engine reports right before it", async () => {
  const { look } = lookAfter(reportPlans(), 6);
  expect(await look()).toBe("done");
  expect((await live())?.status).toMatchObject({
    scaling: { message: "plan 6" },
    nodeName: "node-a",
    volumeHandle: metadata.name,
  });
});

it("names the generation that it looked at, where a target comes right before it", async () => {
  const { look } = lookAfter(decideTargets(), 3);
  expect(await look()).toBe("done");
  const said = await live();
  expect(said?.metadata.generation).toBe((filesystem.metadata.generation ?? 0) + 3);
  expect(said?.status).toMatchObject({ observedGeneration: filesystem.metadata.generation, nodeName: "node-a" });
});

it("is tried again by the queue where nothing else changes after a burst of reports", async () => {
  const { look } = lookAfter(reportPlans(), 12);
  let looks = 0;
  const queue = createWorkQueue({
    name: "looks",
    concurrency: 1,
    run: () => {
      looks += 1;
      return look();
    },
    log: createLogger("test", "silent"),
    backOff: { baseMs: 1, capMs: 10 },
  });
  queue.add(metadata.name);
  await untilRead("its status", live, (one) => one?.status?.volumeHandle === metadata.name);
  expect(looks).toBe(2);
  expect((await live())?.status?.scaling?.message).toBe("plan 12");
  await queue.stop();
});

it("is not said over what another operator has said since: the change has it looked at again", async () => {
  const { look } = lookAfter(sayElsewhere);
  expect(await look()).toBe("done");
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
