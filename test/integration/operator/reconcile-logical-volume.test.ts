import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES } from "../../../src/contracts/kinds/logical-volume.ts";
import { API_VERSION, FIELD_MANAGERS, RECORDS } from "../../../src/contracts/names.ts";
import { reconcileLogicalVolume } from "../../../src/operator/lvm/make-logical-volume.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { CLAIM_REF, HANDLE, NODE, VOLUME_UID } from "../../builders/volume.ts";
import { filledCache } from "../../fakes/filled-cache.ts";
import { type ApiServer, startApiServer } from "./api-server.ts";

const VOLUME_ID = "99999999-2222-4333-8444-555555555555";

let server: ApiServer;
let client: KubeClient;
beforeAll(async () => {
  server = await startApiServer(NODE);
  client = server.client;
});
afterAll(() => server.stop());
afterEach(async () => {
  await client.delete("test/layout", FILESYSTEM_LAYOUTS, { name: HANDLE });
  await client.delete("test/logical-volume", LOGICAL_VOLUMES, { name: HANDLE });
});

/** Of a volume of which 10Gi were asked for and which began with 1Gi; `present`: what its node reports. */
async function createLayout(present?: string): Promise<FilesystemLayout> {
  const object = { apiVersion: API_VERSION, kind: "FilesystemLayout" };
  const annotations = { [RECORDS.requestedSize]: "10Gi", [RECORDS.initialSize]: "1Gi" };
  const source = { logicalVolume: { name: HANDLE, volumeID: VOLUME_ID, deviceClass: "ssd" } };
  const members = [{ name: "m0", size: "1Gi", state: "Present", source }];
  const spec = { claimRef: CLAIM_REF, volumeUID: VOLUME_UID, backend: "lvm", fsType: "btrfs", nodeName: NODE, members };
  const layout = await client.apply(
    "test/layout",
    FILESYSTEM_LAYOUTS,
    { ...object, metadata: { name: HANDLE, annotations }, spec },
    { fieldManager: FIELD_MANAGERS.operator },
  );
  if (present === undefined) return layout;
  const status = { nodeName: NODE, members: [{ name: "m0", size: present, state: "Present" }] };
  return client.apply(
    "test/report",
    FILESYSTEM_LAYOUTS,
    { ...object, metadata: { name: HANDLE }, status },
    { fieldManager: FIELD_MANAGERS.agent, subresource: "status" },
  );
}

/** An operator's whose caches have seen no LogicalVolume. */
const tend = (layout: FilesystemLayout): Promise<boolean> => {
  return reconcileLogicalVolume({ client, caches: { logicalVolumes: filledCache() } }, layout);
};

describe("a LogicalVolume that somebody has deleted", () => {
  it.each<[string, string | undefined, string]>([
    ["as large as its node says that it has become, whatever was asked for", "3Gi", "3Gi"],
    ["as large as was ordered, where no node has said anything yet", undefined, "1Gi"],
  ])("is made again %s", async (_what, present, size) => {
    expect(await tend(await createLayout(present))).toBe(true);
    const { spec } = (await client.get(LOGICAL_VOLUMES, { name: HANDLE })) ?? {};
    expect(spec).toEqual({ nodeName: NODE, deviceClass: "ssd", size, volumeID: VOLUME_ID, claimRef: CLAIM_REF });
  });

  it("is left as it is where another operator has made it meanwhile", async () => {
    const layout = await createLayout("3Gi");
    expect(await tend(layout)).toBe(true);
    const first = await client.get(LOGICAL_VOLUMES, { name: HANDLE });
    expect(await tend(layout)).toBe(false);
    expect(await client.get(LOGICAL_VOLUMES, { name: HANDLE })).toEqual(first);
  });
});
