// The operator dies before and after every write for an ordinary claim, and another one takes over: the request is raised to what was
// asked for, once, and nothing is left behind. Death is played by a client whose write fails at that point and at all later ones.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { bootstrap } from "../../demo/stand-ins/bootstrap.ts";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { RECORDS } from "../../src/contracts/names.ts";
import { createClaimCaches } from "../../src/operator/claim/claim-caches.ts";
import { createOptIn } from "../../src/operator/claim/claim-facts.ts";
import { reconcileClaim } from "../../src/operator/claim/reconcile-claim.ts";
import { createVolumeCaches } from "../../src/operator/gather/volume-caches.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../src/platform/kube/client/http-client.ts";
import { createEventRecorder } from "../../src/platform/kube/events/events.ts";
import { KubeError } from "../../src/platform/kube/kube-error.ts";
import { systemClock } from "../../src/platform/process/clock.ts";
import { directEffects, type Effects } from "../../src/platform/process/effects/effects.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { type ApiUnderTest, startApiUnderTest } from "../harness/api-under-test.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { type ForeignDriver, foreignDriver, NAMESPACE as namespace } from "../integration/operator/foreign-driver.ts";

const log = createLogger("test", "silent");
let controlPlane: ApiUnderTest;
let client: ConnectedKubeClient;
let driver: ForeignDriver;

beforeAll(async () => {
  controlPlane = await startApiUnderTest({ port: 0, log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects, log });
  const places = {
    crdDirectory: "kustomize/foundation/crds",
    nodeName: "node-1",
    initialSize: "1Gi",
    fsType: "btrfs",
  } as const;
  await bootstrap(client, places);
  driver = foreignDriver(client);
  await driver.createClass();
  await driver.policy("in", "Enabled");
});
afterAll(async () => {
  await client.close();
  await controlPlane.close();
});

class Death extends Error {}

/** Dead from this passage on; undefined: it lives. The passages of a life that was not ended are noted. */
function mortal(deathAt: string | undefined, passages: string[] = []): Effects {
  let dead = false;
  const pass = (passage: string): void => {
    passages.push(passage);
    dead ||= passage === deathAt;
    if (dead) throw new Death(passage);
  };
  return {
    run: async (point, effect) => {
      pass(`${point}/before`);
      const done = await effect();
      pass(`${point}/after`);
      return done;
    },
  };
}

/** One operator that looks at the claim once, with caches of its own. */
async function lookOnce(handle: string, effects: Effects): Promise<void> {
  const own = createKubeClient({ connection: { server: controlPlane.url }, effects, log });
  const volumes = createVolumeCaches(own, log);
  const caches = createClaimCaches(own, volumes, log);
  const optIn = createOptIn(caches);
  volumes.start();
  caches.start();
  try {
    await caches.synced;
    const events = createEventRecorder({ client, component: "test", nowMs: systemClock.nowMs, log });
    await reconcileClaim({ client: own, caches, optIn, events, clock: systemClock }, handle);
  } catch (error) {
    if (!(error instanceof Death)) throw error;
  } finally {
    await caches.stop();
    await volumes.stop();
    await own.close();
  }
}

const STEPS = ["adopted", "extended", "deleted"] as const;
type Step = (typeof STEPS)[number];
type Look = (handle: string, step: Step) => Promise<void>;

/** In each step it is looked at by one operator, and then by one that lives. */
async function live(name: string, look: Look): Promise<void> {
  const handle = await driver.provide(name);
  // The one that lives looks again at what it has written itself.
  const lookAgain = async (step: Step): Promise<void> => {
    await look(handle, step);
    await lookOnce(handle, directEffects);
    await lookOnce(handle, directEffects);
  };
  await lookAgain("adopted");
  const decidedAt = await driver.want(name, "15Gi", "10Gi");
  await lookAgain("extended");
  const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  expect(claim?.spec.resources?.requests?.storage).toBe("15Gi");
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  expect(layout?.spec.target?.decidedAt).toBe(decidedAt);
  expect(layout?.metadata.annotations?.[RECORDS.requestedSize]).toBe("10Gi");
  const filesystem = await client.get(FILESYSTEMS, { namespace, name });
  expect(filesystem?.status?.conditions).toContainEqual(
    expect.objectContaining({ type: "Reconciling", reason: "OperationRunning" }),
  );
  await client.delete("test/delete", PERSISTENT_VOLUME_CLAIMS, { namespace, name });
  await lookAgain("deleted");
  expect(await client.get(FILESYSTEM_LAYOUTS, { name: handle })).toBeUndefined();
}

describe("an ordinary claim", () => {
  it("ends up as it should, wherever the operator dies", async () => {
    const passages: Record<Step, string[]> = { adopted: [], extended: [], deleted: [] };
    await live("whole", (handle, step) => lookOnce(handle, mortal(undefined, passages[step])));
    const points = STEPS.flatMap((step) => passages[step]);
    expect(points).toEqual(
      expect.arrayContaining(["claim/apply-layout/before", "claim/raise-request/after", "claim/delete-layout/after"]),
    );
    // A life has a death in each of its steps. One that fails names the step, by what it expects, and the passages.
    for (let index = 0; index < Math.max(...STEPS.map((step) => passages[step].length)); index += 1) {
      const deaths = STEPS.map((step) => passages[step][index]);
      await live(`dies-${index}`, (handle, step) => lookOnce(handle, mortal(passages[step][index]))).catch((cause) => {
        throw new Error(`with deaths at ${deaths.join(", ")}: ${cause}`, { cause });
      });
    }
    noteDeaths("ordinary-claim-crash", { killsAt: points, diedAt: points });
  });

  it("is not lowered to our target: a larger request that somebody makes at that moment stays", async () => {
    const name = "at-once";
    const handle = await driver.provide(name);
    await lookOnce(handle, directEffects);
    await driver.want(name, "15Gi", "10Gi");
    const spec = { resources: { requests: { storage: "50Gi" } } };
    const overtaken: Effects = {
      run: async (point, effect) => {
        if (point === "claim/raise-request")
          await client.mergePatch("test/raise", PERSISTENT_VOLUME_CLAIMS, { namespace, name }, { spec });
        return effect();
      },
    };
    await expect(lookOnce(handle, overtaken)).rejects.toMatchObject({ reason: "Conflict" });
    await lookOnce(handle, directEffects);
    const claim = await client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
    expect(claim?.spec.resources?.requests?.storage).toBe("50Gi");
  });

  it("that a quota refused is not raised to that target later, but to the next", async () => {
    const name = "over-quota";
    const handle = await driver.provide(name);
    await lookOnce(handle, directEffects);
    const decidedAt = await driver.want(name, "15Gi", "10Gi");
    const overQuota: Effects = {
      run: async (point, effect) => {
        if (point === "claim/raise-request") throw new KubeError("Forbidden", 403, "exceeded quota: gold");
        return effect();
      },
    };
    await lookOnce(handle, overQuota);
    // The quota has room again.
    await lookOnce(handle, directEffects);
    const claim = () => client.get(PERSISTENT_VOLUME_CLAIMS, { namespace, name });
    expect((await claim())?.spec.resources?.requests?.storage).toBe("10Gi");
    expect((await client.get(FILESYSTEM_LAYOUTS, { name: handle }))?.spec.target?.decidedAt).toBe(decidedAt);
    const stalled = async () =>
      (await client.get(FILESYSTEMS, { namespace, name }))?.status?.conditions?.find(({ type }) => type === "Stalled");
    expect(await stalled()).toMatchObject({
      ...{ status: "True", reason: "ResizeFailed" },
      message: "the request was not raised to 15Gi: Forbidden: exceeded quota: gold",
    });
    await driver.want(name, "12Gi", "10Gi");
    await lookOnce(handle, directEffects);
    await lookOnce(handle, directEffects);
    expect((await claim())?.spec.resources?.requests?.storage).toBe("12Gi");
    expect(await stalled()).toMatchObject({ status: "False" });
  });
});
