// What a CreateVolume of a span leaves that ends with an error: what was begun is taken back for what can never be had, and for that alone.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { SPAN } from "../../../src/contracts/csi/driver.ts";
import type { CreateVolumeRequest } from "../../../src/contracts/gen/csi/v1/csi.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { createMemberHome } from "../../../src/operator/apply/member-home.ts";
import { createLayoutWriter } from "../../../src/operator/apply/volume-objects.ts";
import { type Creating, createVolume } from "../../../src/operator/csi/create/create-volume.ts";
import { createCacheWait, createLayoutWatch } from "../../../src/operator/gather/cache-waits.ts";
import { createVolumeCaches, type VolumeCaches } from "../../../src/operator/gather/volume-caches.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../src/platform/kube/kube-error.ts";
import { createKeyedQueue } from "../../../src/platform/process/async/keyed-queue.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { type SpanCluster, startSpanCluster } from "./span-cluster.ts";

const log = createLogger("test", "silent");

let tested: SpanCluster;
let caches: VolumeCaches;
beforeAll(async () => {
  tested = await startSpanCluster();
  await tested.cluster.stopOperator();
  tested.sidecars.binds = false;
  caches = createVolumeCaches(tested.cluster.client, log);
  caches.start();
  await caches.synced;
});
afterAll(async () => {
  await caches.stop();
  await tested.stop();
});

function creatingBy(client: KubeClient): Creating {
  return {
    driver: SPAN,
    client,
    caches,
    layouts: createLayoutWriter(client),
    watch: createLayoutWatch(client, caches.layouts),
    changes: { until: (_handle, look) => look() },
    turns: createKeyedQueue(),
    home: createMemberHome(client, { guardsRequired: false }, log),
    events: { record: () => undefined, flush: async () => undefined },
    logicalVolumes: caches.logicalVolumes,
    logicalVolumeChange: createCacheWait(caches.logicalVolumes),
    budgetBytes: 100 * GIB,
    memberWaitLimitMs: 0,
    makingWaitLimitMs: 0,
    removalWaitLimitMs: 0,
  };
}

/** Its layout, and the claim of its member, which is bound to nothing. */
async function begun(): Promise<{ readonly request: CreateVolumeRequest; readonly handle: string }> {
  const request = tested.span.request();
  const refusal = await createVolume(creatingBy(tested.cluster.client), request).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "ABORTED", message: expect.stringMatching(/^fs-.* is not bound after 0 ms/) });
  return { request, handle: (refusal as Error).message.slice(0, "fs-".length + 36) };
}

async function expectKept(handle: string): Promise<void> {
  const layout = await tested.span.layout(handle);
  expect(layout?.spec.members?.map(({ state }) => state)).toEqual(["Present"]);
  expect(await tested.span.claims(handle)).toEqual([`${handle}-m0`]);
}

describe("a span of which CreateVolume has begun the first member", () => {
  it("stays where the call says to ask again, and the next one goes on from there", async () => {
    const { request, handle } = await begun();
    await expectKept(handle);
    await expect(createVolume(creatingBy(tested.cluster.client), request)).rejects.toMatchObject({ code: "ABORTED" });
    await expectKept(handle);
  });

  it.each<[string, (before: readonly string[]) => boolean]>([
    ["is asked whose claim it is", (before) => !before.includes("get persistentvolumeclaims")],
    ["is asked for the member", (before) => before.includes("get storageclasses")],
  ])(
    "stays where the API server does not answer while it %s",
    async (_when, isNow) => {
      const { request, handle } = await begun();
      const { client } = interposed(
        tested.cluster.client,
        (call, before) => call === "get persistentvolumeclaims" && isNow(before),
        () => Promise.reject(new KubeError("Unreachable", 0, "no answer")),
      );
      await expect(createVolume(creatingBy(client), request)).rejects.toMatchObject({ reason: "Unreachable" });
      await expectKept(handle);
    },
    60_000,
  );
});
