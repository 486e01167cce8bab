import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { freePort } from "../../../demo/show/run/free-port.ts";
import type { Resource } from "../../../src/contracts/kubernetes/object.ts";
import {
  CONFIG_MAPS,
  type ConfigMap,
  EVENTS,
  LEASES,
  NAMESPACES,
} from "../../../src/contracts/kubernetes/resources.ts";
import { createReflector } from "../../../src/platform/kube/cache/reflector.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../src/platform/kube/client/http-client.ts";
import { createApplier } from "../../../src/platform/kube/client/writes.ts";
import { createLeaderElection, type LeaderElection } from "../../../src/platform/kube/election/lease.ts";
import { createEventRecorder } from "../../../src/platform/kube/events/events.ts";
import { createWorkQueue } from "../../../src/platform/kube/queue/work-queue.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createRecordingLog } from "../../fakes/recording-log.ts";
import { startApiUnderTest } from "../../harness/api-under-test.ts";
import { eventually } from "../../harness/wait-for.ts";

const { log } = createRecordingLog();

let controlPlane: Awaited<ReturnType<typeof startApiUnderTest>>;
let client: ConnectedKubeClient;
/** What must end before the client does, whether the test passed or not. */
let started: { stop(): Promise<void> }[];

beforeEach(async () => {
  started = [];
  controlPlane = await startApiUnderTest({ port: await freePort(), log });
  client = createKubeClient({ connection: { server: controlPlane.url }, effects: directEffects });
  await createNamespace();
});

afterEach(async () => {
  for (const { stop } of started) await stop();
  await client.close();
  await controlPlane.close();
});

async function createNamespace(): Promise<void> {
  await client.create("test/create", NAMESPACES, { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } });
}

function configMap(name: string, data: Record<string, string> = {}): ConfigMap {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "shop", name }, data };
}

function put(name: string, data?: Record<string, string>): Promise<ConfigMap> {
  return client.create("test/create", CONFIG_MAPS, configMap(name, data));
}

const at = (name: string) => ({ namespace: "shop", name });

describe("the client", () => {
  it("creates, reads, replaces, patches and deletes", async () => {
    const created = await put("a", { k: "1" });
    expect(created.metadata.uid).toBeDefined();
    const replaced = await client.update("test/update", CONFIG_MAPS, { ...created, data: { k: "2" } });
    await client.mergePatch("test/patch", CONFIG_MAPS, at("a"), { data: { l: "3" } });
    expect((await client.get(CONFIG_MAPS, at("a")))?.data).toEqual({ k: "2", l: "3" });
    await expect(client.update("test/update", CONFIG_MAPS, replaced)).rejects.toMatchObject({ reason: "Conflict" });
    await expect(put("a")).rejects.toMatchObject({ reason: "AlreadyExists" });
    expect(await client.delete("test/delete", CONFIG_MAPS, at("a"))).toBe(true);
    expect(await client.delete("test/delete", CONFIG_MAPS, at("a"))).toBe(false);
    expect(await client.get(CONFIG_MAPS, at("a"))).toBeUndefined();
  });

  it("deletes only the object that its precondition means", async () => {
    await put("a");
    const other = { uid: "11111111-1111-4111-8111-111111111111" };
    await expect(client.delete("test/delete", CONFIG_MAPS, at("a"), other)).rejects.toMatchObject({
      reason: "Conflict",
    });
    expect(await client.get(CONFIG_MAPS, at("a"))).toBeDefined();
  });

  it("applies one manager's fields, and conflicts over another's unless forced", async () => {
    const wanted = { ...configMap("a", { k: "ours" }) };
    await client.apply("test/apply", CONFIG_MAPS, wanted, { fieldManager: "one" });
    const theirs = { ...configMap("a", { k: "theirs" }) };
    await expect(client.apply("test/apply", CONFIG_MAPS, theirs, { fieldManager: "two" })).rejects.toMatchObject({
      reason: "Conflict",
    });
    const forced = await client.apply("test/apply", CONFIG_MAPS, theirs, { fieldManager: "two", force: true });
    expect(forced.data).toEqual({ k: "theirs" });
  });

  it("refuses fields that the kind does not have", async () => {
    const odd = { ...configMap("a"), spec: {} };
    await expect(client.create("test/create", CONFIG_MAPS, odd)).rejects.toMatchObject({ reason: "BadRequest" });
  });

  it("lists over pages, by label, and tells a kind that is not served from an object that is not there", async () => {
    for (let i = 0; i < 7; i += 1) await put(`c-${i}`);
    const { items } = await client.list(CONFIG_MAPS, { namespace: "shop", pageSize: 3 });
    expect(items.map(({ metadata, kind }) => [metadata.name, kind])).toEqual(
      Array.from({ length: 7 }, (_, i) => [`c-${i}`, "ConfigMap"]),
    );
    const unknown: Resource<ConfigMap> = {
      ...CONFIG_MAPS,
      group: "tidemark.dev",
      version: "v1alpha1",
      plural: "tides",
    };
    await expect(client.get(unknown, at("a"))).rejects.toMatchObject({ reason: "NotFound" });
  });
});

describe("reflector and work queue", () => {
  it("bring every object to its newest version exactly once more after its last change", async () => {
    for (let i = 0; i < 20; i += 1) await put(`before-${i}`);
    const reflector = createReflector({ client, resource: CONFIG_MAPS, log, select: { namespace: "shop" } });
    const reconciled = new Map<string, string | undefined>();
    const queue = createWorkQueue({
      name: "config-maps",
      concurrency: 4,
      log,
      run: async (key) => {
        reconciled.set(key, reflector.store.get(key)?.data?.["k"]);
        return "done";
      },
    });
    const enqueue = ({ metadata: { name } }: ConfigMap): void => queue.add(`shop/${name}`);
    reflector.subscribe({ added: enqueue, updated: enqueue, deleted: enqueue });
    started = [reflector, queue];
    reflector.start();
    await reflector.synced;
    expect(reflector.store.size).toBe(20);
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        await client.mergePatch("test/patch", CONFIG_MAPS, at(`before-${i}`), { data: { k: "patched" } });
        await put(`after-${i}`, { k: "new" });
      }),
    );
    await client.delete("test/delete", CONFIG_MAPS, at("before-0"));
    await eventually("all is reconciled", () => {
      const values = [...reconciled.values()];
      return values.filter((k) => k === "patched").length === 19 && values.filter((k) => k === "new").length === 20;
    });
    await eventually("the deletion is seen", () => reconciled.get("shop/before-0") === undefined);
    expect(reflector.store.get("shop/before-0")).toBeUndefined();
  });

  it("follow a control plane that lost everything and came back on the same address", async () => {
    await put("lost");
    const reflector = createReflector({
      client,
      resource: CONFIG_MAPS,
      log,
      select: { namespace: "shop" },
      timing: { backOff: { baseMs: 10, capMs: 100 } },
    });
    started = [reflector];
    reflector.start();
    await reflector.synced;
    await controlPlane.close();
    controlPlane = await startApiUnderTest({ port: controlPlane.port, log });
    // The first request may still go out on a connection to the server that is gone.
    await createNamespace().catch(createNamespace);
    await put("new");
    await eventually("the new object is there", () => reflector.store.get("shop/new") !== undefined);
    expect(reflector.store.get("shop/lost")).toBeUndefined();
  });
});

describe("applyOnChange", () => {
  it("makes a second request only when somebody changed what was applied", async () => {
    const applier = createApplier(client);
    /** True where a request was made. */
    const apply = async () =>
      (await applier.applyOnChange(
        "test/apply",
        CONFIG_MAPS,
        { ...configMap("a", { k: "v" }) },
        { fieldManager: "tidemark-operator", force: true },
        await client.get(CONFIG_MAPS, at("a")),
      )) !== undefined;
    expect([await apply(), await apply()]).toEqual([true, false]);
    await client.mergePatch("test/patch", CONFIG_MAPS, at("a"), { data: { k: "theirs" } });
    expect([await apply(), await apply()]).toEqual([true, false]);
  });
});

describe("leader election", () => {
  it("hands over with a higher epoch when the leader stops", async () => {
    const start = (identity: string, highestKnownEpoch: number): LeaderElection => {
      const election = createLeaderElection({
        client,
        log,
        lease: { namespace: "shop", name: "engine" },
        identity,
        highestKnownEpoch: async () => highestKnownEpoch,
        onAcquired: () => {},
        onLost: () => {},
        // Nobody here loses it by being slow.
        timing: { leaseDurationMs: 120_000, renewDeadlineMs: 100_000, retryMs: 50, attemptLimitMs: 60_000 },
      });
      started.push(election);
      election.start();
      return election;
    };
    const a = start("a", 0);
    await eventually("a leads", () => a.isLeader());
    expect(a.epoch()).toBe(1);
    const b = start("b", 4);
    await a.stop();
    await eventually("b leads", () => b.isLeader());
    expect(b.epoch()).toBe(5);
    await b.stop();
    const lease = await client.get(LEASES, { namespace: "shop", name: "engine" });
    expect([lease?.spec?.holderIdentity ?? "", lease?.metadata.annotations?.["tidemark.dev/epoch"]]).toEqual(["", "5"]);
  });
});

describe("the event recorder", () => {
  it("writes an Event and counts its repetition up", async () => {
    const recorder = createEventRecorder({ client, component: "tidemark-operator", nowMs: Date.now, log });
    const object = await put("a");
    for (let i = 0; i < 3; i += 1) {
      recorder.record(object, "Warning", "MembersMissing", "1 of 2 members is missing");
      await recorder.flush();
    }
    const { items } = await client.list(EVENTS, { namespace: "shop" });
    expect(items).toEqual([expect.objectContaining({ count: 3, reason: "MembersMissing", type: "Warning" })]);
    expect(items[0]?.involvedObject.uid).toBe(object.metadata.uid);
  });
});
