// What an agent hears of layouts, against an API server.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { bootstrap } from "../../../demo/stand-ins/bootstrap.ts";
import { createLayoutExchange, type LayoutExchange } from "../../../src/agent/volumes/layout-exchange.ts";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { type ApiUnderTest, startApiUnderTest } from "../../harness/api-under-test.ts";
import { waitFor } from "../../harness/wait-for.ts";

const NODE = "node-a";
const { log } = createRecordingLog();
let controlPlane: ApiUnderTest;
let client: ConnectedKubeClient;
let exchange: LayoutExchange;
const heard = new Set<string>();
let claimsHeard = 0;

beforeAll(async () => {
  controlPlane = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  const places = {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: NODE,
    initialSize: "1Gi",
    fsType: "btrfs",
  } as const;
  await bootstrap(client, places);
  exchange = createLayoutExchange({ nodeName: NODE, volumes: new Map(), client, clock: systemClock, log });
  const claimsChanged = (): void => {
    claimsHeard += 1;
  };
  exchange.follow((handle) => heard.add(handle), claimsChanged);
});
afterAll(async () => {
  for (const { stop } of exchange.stoppables) await stop();
  await client.close();
  await controlPlane.close();
});

const apply = (name: string, spec: object, annotations = {}) =>
  client.apply(
    "test/layout",
    FILESYSTEM_LAYOUTS,
    { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata: { name, annotations }, spec },
    { fieldManager: "test" },
  );
const claimOn = (nodeName: string) => ({ backend: "claim", nodeName });
let markers = 0;
/** How often claims were heard of, of all that happened so far. */
async function heardByNow(): Promise<number> {
  markers += 1;
  const name = `fs-marker-${markers}`;
  await apply(name, { backend: "loop", nodeName: "node-b" });
  await waitFor(name, () => heard.has(name) || undefined);
  return claimsHeard;
}

it("is of ordinary claims on its own node only, and of what matters there", async () => {
  for (let index = 0; index < 5; index += 1) await apply(`fs-other-${index}`, claimOn("node-b"));
  expect(await heardByNow()).toBe(0);
  await apply("fs-mine", claimOn(NODE));
  expect(await heardByNow()).toBe(1);
  expect(exchange.claimLayouts().map(({ metadata }) => metadata.name)).toEqual(["fs-mine"]);
  await apply("fs-mine", claimOn(NODE), { "tidemark.dev/requested-size": "10Gi" });
  expect(await heardByNow()).toBe(1);
  await apply("fs-mine", claimOn("node-b"));
  expect(await heardByNow()).toBe(2);
  expect(exchange.claimLayouts()).toEqual([]);
});
