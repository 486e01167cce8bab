// What the agent says of a LogicalVolume whose name another one has by then.
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import {
  type LogicalVolumeParts,
  reconcileLogicalVolume,
} from "../../../src/agent/logical-volumes/reconcile-logical-volume.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../../src/contracts/kinds/logical-volume.ts";
import { API_VERSION } from "../../../src/contracts/names.ts";
import { createApplier } from "../../../src/platform/kube/client/writes.ts";
import { createKeyedQueue } from "../../../src/platform/process/async/keyed-queue.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { filledCache } from "../../fakes/filled-cache.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { type ApiServer, startApiServer } from "../operator/api-server.ts";

const NODE = "node-a";
const NAME = "snap-11111111-2222-4333-8444-555555555555";
let server: ApiServer;
beforeAll(async () => {
  server = await startApiServer(NODE);
});
afterAll(() => server.stop());

function make(): Promise<LogicalVolume> {
  return server.client.create("test/volume", LOGICAL_VOLUMES, {
    apiVersion: API_VERSION,
    kind: "LogicalVolume",
    metadata: { name: NAME },
    spec: { nodeName: NODE, deviceClass: "ssd", size: "1Gi", state: "Removed" },
  });
}

it("is not said of that other one", async () => {
  const { client } = server;
  const made = await make();
  const before: LogicalVolume = { ...made, status: { state: "Removed" } };
  const late = interposed(
    client,
    (call) => call === "apply logicalvolumes",
    async () => {
      await client.delete("test/volume", LOGICAL_VOLUMES, { name: NAME });
      await make();
    },
  );
  // Of a volume that is removed already nothing else is asked.
  const parts = doubleOf<LogicalVolumeParts>("LogicalVolumeParts", {
    nodeName: NODE,
    volumes: filledCache({}, [before]).store,
    queues: createKeyedQueue(),
    applier: createApplier(late.client),
  });
  await expect(reconcileLogicalVolume(parts, NAME)).rejects.toMatchObject({ reason: "Conflict" });
  const remade = await client.get(LOGICAL_VOLUMES, { name: NAME });
  expect(remade?.metadata.uid).not.toBe(made.metadata.uid);
  expect(remade?.status?.state).toBeUndefined();
});
