import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import {
  createReflector,
  type Reflector,
  type ReflectorTiming,
} from "../../../../../src/platform/kube/cache/reflector.ts";
import type { Keep } from "../../../../../src/platform/kube/client/client.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../../../src/platform/kube/client/http-client.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { CONFIG_MAPS, configMap, type TestConfigMap } from "../../../../builders/config-map.ts";
import {
  answerJson,
  answerStatus,
  isWatch,
  type MisbehavingApiServer,
  sendEvents,
  startMisbehavingApiServer,
} from "../../../../fakes/misbehaving-api-server.ts";
import { createRecordingLog, ERROR_LEVEL, type LogLine } from "../../../../fakes/recording-log.ts";
import { eventually } from "../../../../harness/wait-for.ts";

const TIMER_GRAIN_MS = 2;
const EAGER: Partial<ReflectorTiming> = { backOff: { baseMs: 5, capMs: 20 } };

let server: MisbehavingApiServer;
let client: ConnectedKubeClient;
let reflector: Reflector<TestConfigMap>;
let changes: string[];
let lines: LogLine[];
let listed: TestConfigMap[];

/** A list of what `listed` holds at resourceVersion 10, and a silent watch. */
beforeEach(async () => {
  listed = [];
  server = await startMisbehavingApiServer((request, response) =>
    isWatch(request) ? sendEvents(response) : answerList(response, "10"),
  );
  client = createKubeClient({ connection: { server: server.server }, effects: directEffects });
});

afterEach(async () => {
  await reflector.stop();
  await client.close();
  await server.close();
});

function answerList(response: Parameters<typeof answerJson>[0], resourceVersion: string): void {
  answerJson(response, 200, { items: listed, metadata: { resourceVersion } });
}

function start(timing: Partial<ReflectorTiming> = EAGER, keep?: Keep<TestConfigMap>): void {
  const recording = createRecordingLog();
  lines = recording.lines;
  changes = [];
  reflector = createReflector({
    client,
    resource: CONFIG_MAPS,
    log: recording.log,
    indexes: { byTier: ({ data }) => (data?.["tier"] === undefined ? [] : [data["tier"]]) },
    timing,
    ...(keep && { keep }),
  });
  reflector.subscribe({
    added: ({ metadata }) => void changes.push(`added ${metadata.name}@${metadata.resourceVersion}`),
    updated: ({ metadata }, before) =>
      void changes.push(`updated ${metadata.name}@${before.metadata.resourceVersion}->${metadata.resourceVersion}`),
    deleted: ({ metadata }) => void changes.push(`deleted ${metadata.name}@${metadata.resourceVersion}`),
  });
  reflector.start();
}

const watches = () => server.requests.filter(isWatch);
const lists = () => server.requests.filter((request) => !isWatch(request));

describe("a healthy server", () => {
  it("is synced when the whole list is in the store and was told as added", async () => {
    listed = [configMap("a", "1"), configMap("b", "2")];
    start();
    await reflector.synced;
    expect(changes).toEqual(["added a@1", "added b@2"]);
    expect(reflector.store.get("shop/a")).toEqual(configMap("a", "1"));
    expect(reflector.lastContactMs()).toBeDefined();
  });

  it("follows events from the list's resourceVersion on, with the old object beside the new", async () => {
    listed = [configMap("a", "1")];
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      sendEvents(
        response,
        { type: "ADDED", object: configMap("b", "11") },
        { type: "MODIFIED", object: configMap("a", "12") },
        { type: "DELETED", object: configMap("b", "13") },
      );
    });
    start();
    await eventually("the deletion arrives", () => changes.includes("deleted b@11"));
    expect(changes).toEqual(["added a@1", "added b@11", "updated a@1->12", "deleted b@11"]);
    expect(watches()[0]?.query.get("resourceVersion")).toBe("10");
  });

  it("finds objects by index, and follows them when the value moves", async () => {
    listed = [configMap("a", "1", { tier: "cache" }), configMap("b", "2", { tier: "cache" }), configMap("c", "3")];
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      sendEvents(response, { type: "MODIFIED", object: configMap("a", "11", { tier: "db" }) });
    });
    start();
    await eventually("a moves", () => changes.includes("updated a@1->11"));
    const names = (tier: string) => reflector.store.byIndex("byTier", tier).map(({ metadata }) => metadata.name);
    expect([names("cache"), names("db"), names("none")]).toEqual([["b"], ["a"], []]);
    expect(() => reflector.store.byIndex("byName", "a")).toThrow('no index "byName"; there are: byTier');
  });

  it("keeps of each object what it is told to, and forgets one of which nothing is to be kept any more", async () => {
    listed = [
      configMap("a", "1", { tier: "cache", notes: "long" }),
      configMap("b", "2"),
      configMap("c", "3", { tier: "x" }),
    ];
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      const events = [configMap("c", "11"), configMap("a", "12", { tier: "db", notes: "longer" })];
      sendEvents(response, ...events.map((object) => ({ type: "MODIFIED", object })));
    });
    start(EAGER, ({ data, ...rest }) =>
      data === undefined ? undefined : { ...rest, data: { tier: data["tier"] ?? "" } },
    );
    await eventually("a moves", () => changes.includes("updated a@1->12"));
    expect(changes).toEqual(["added a@1", "added c@3", "deleted c@3", "updated a@1->12"]);
    expect(reflector.store.list()).toEqual([configMap("a", "12", { tier: "db" })]);
    expect(watches()[0]?.query.get("resourceVersion")).toBe("10");
  });

  it("tells a late subscriber of what is there", async () => {
    listed = [configMap("a", "1")];
    start();
    await reflector.synced;
    const seen: string[] = [];
    reflector.subscribe({ added: ({ metadata }) => void seen.push(metadata.name) });
    expect(seen).toEqual(["a"]);
  });

  it("is silent after stop", async () => {
    let send: (() => void) | undefined;
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      sendEvents(response);
      send = () => sendEvents(response, { type: "ADDED", object: configMap("late", "11") });
    });
    start();
    await eventually("the watch is open", () => send !== undefined);
    await reflector.stop();
    send?.();
    await eventually("the server saw the watch end", () => watches().length === 1);
    expect(changes).toEqual([]);
  });
});

describe("a misbehaving server", () => {
  it("backs off when the server closes every watch at once", async () => {
    const openedMs: number[] = [];
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      openedMs.push(performance.now());
      sendEvents(response);
      response.end();
    });
    start({ backOff: { baseMs: 200, capMs: 30_000 } });
    await eventually("it has tried four times", () => openedMs.length === 4);
    const waits = lines.slice(0, 3).map(({ waitMs }) => Number(waitMs));
    for (const [failure, waitMs] of waits.entries()) {
      expect(waitMs).toBeGreaterThanOrEqual(100 * 2 ** failure);
      const waitedMs = (openedMs[failure + 1] ?? 0) - (openedMs[failure] ?? 0);
      expect(waitedMs).toBeGreaterThanOrEqual(waitMs - TIMER_GRAIN_MS); // a busy machine only makes it longer
    }
    expect(lines[0]).toMatchObject({ failures: 1 });
  });

  it("waits longer after each failure, up to the cap", async () => {
    server.behave((_request, response) => answerStatus(response, 500, "InternalError", "broken"));
    start({ backOff: { baseMs: 2, capMs: 16 } });
    await eventually("it has failed eight times", () => lines.length >= 8);
    const waits = lines.map(({ waitMs }) => Number(waitMs));
    const steps = [2, 4, 8, 16, 16, 16, 16, 16];
    for (const [failure, step] of steps.entries()) {
      expect(waits[failure]).toBeGreaterThanOrEqual(step / 2);
      expect(waits[failure]).toBeLessThanOrEqual(step);
    }
  });

  it("resumes at once after a watch that lived long enough, from the last resourceVersion or bookmark", async () => {
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      if (watches().length > 2) return sendEvents(response);
      const bookmark = { type: "BOOKMARK", object: { metadata: { resourceVersion: `${watches().length}00` } } };
      sendEvents(response, { type: "ADDED", object: configMap("a", "11") }, bookmark);
      response.end();
    });
    start({ backOff: { baseMs: 1000, capMs: 30_000 }, healthyWatchMs: 0 });
    await eventually("it has resumed twice", () => watches().length === 3);
    expect(watches().map(({ query }) => query.get("resourceVersion"))).toEqual(["10", "100", "200"]);
    expect(lists()).toHaveLength(1);
  });

  it("resumes from the last event when the connection is reset", async () => {
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      if (watches().length > 1) return sendEvents(response);
      sendEvents(response, { type: "ADDED", object: configMap("a", "11") });
      setTimeout(() => response.destroy(), 20);
    });
    start();
    await eventually("it has resumed", () => watches().length === 2);
    expect(watches()[1]?.query.get("resourceVersion")).toBe("11");
    expect(changes).toEqual(["added a@11"]);
  });

  it.each(["as the answer", "as an event"])(
    "lists again on 410 %s, and tells what vanished as deleted",
    async (where) => {
      listed = [configMap("kept", "1"), configMap("changed", "2"), configMap("gone", "3")];
      server.behave((request, response) => {
        if (!isWatch(request)) return answerList(response, `${lists().length}0`);
        if (watches().length > 1) return sendEvents(response);
        listed = [configMap("kept", "1"), configMap("changed", "15"), configMap("new", "16")];
        if (where === "as the answer") return answerStatus(response, 410, "Expired", "too old");
        sendEvents(response, { type: "ERROR", object: { kind: "Status", code: 410, message: "too old" } });
        response.end();
      });
      start();
      await eventually("it watches again", () => watches().length === 2);
      expect(changes.slice(3)).toEqual(["deleted gone@3", "updated changed@2->15", "added new@16"]);
      expect(watches()[1]?.query.get("resourceVersion")).toBe("20");
      expect(reflector.store.size).toBe(3);
    },
  );

  it("tells an object that was deleted and made again between two lists as both", async () => {
    listed = [configMap("a", "1", undefined, "old-uid")];
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      if (watches().length > 1) return sendEvents(response);
      listed = [configMap("a", "9", undefined, "new-uid")];
      answerStatus(response, 410, "Expired", "too old");
    });
    start();
    await eventually("it has listed again", () => watches().length === 2);
    expect(changes).toEqual(["added a@1", "deleted a@1", "added a@9"]);
  });

  it("drops a watch that is silent for too long, and resumes from where it was", async () => {
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      // By position, not by count: on a slow machine the first watch may be silent before its event has arrived.
      const at = request.query.get("resourceVersion");
      if (at === "10") return sendEvents(response, { type: "ADDED", object: configMap("a", "11") });
      sendEvents(response, ...(at === "11" ? [{ type: "ADDED", object: configMap("b", "12") }] : []));
    });
    start({ ...EAGER, silenceLimitMs: 100 });
    await eventually("b arrives over a later watch", () => changes.includes("added b@12"));
    expect(changes).toEqual(["added a@11", "added b@12"]);
    expect(lists()).toHaveLength(1);
  });

  it("keeps its objects while the server cannot be asked, and while it does not serve the kind", async () => {
    listed = [configMap("a", "1")];
    start();
    await reflector.synced;
    const failures: ((response: Parameters<typeof answerJson>[0]) => void)[] = [
      (response) => response.destroy(),
      (response) => answerStatus(response, 500, "InternalError", "etcd is gone"),
      (response) => response.writeHead(404).end("404 page not found"),
      (response) => response.writeHead(200).end("{"),
    ];
    let answered = 0;
    server.behave((_request, response) => failures[answered++ % failures.length]?.(response));
    server.cutConnections();
    await eventually("it was refused many times", () => answered >= 12);
    expect(reflector.store.list()).toEqual([configMap("a", "1")]);
    expect(changes).toEqual(["added a@1"]);
  });

  it("lists again when the server cannot serve the position, though it does not say 410", async () => {
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, lists().length === 1 ? "900" : "5");
      if (request.query.get("resourceVersion") === "900")
        return answerStatus(response, 504, "Timeout", "Too large resource version: 900, current: 5");
      sendEvents(response, { type: "ADDED", object: configMap("a", "6") });
    });
    start();
    await eventually("it follows again", () => changes.includes("added a@6"));
  });

  it("waits at least as long as the server asks it to", async () => {
    server.behave((_request, response) => answerJson(response, 429, {}, { "retry-after": "7" }));
    start();
    await eventually("it was refused", () => lines.length > 0);
    expect(lines[0]?.["waitMs"]).toBe(7000);
  });
});

describe("a handler that throws", () => {
  it("is logged, and neither other handlers nor later events suffer", async () => {
    server.behave((request, response) => {
      if (!isWatch(request)) return answerList(response, "10");
      sendEvents(
        response,
        { type: "ADDED", object: configMap("a", "11") },
        { type: "ADDED", object: configMap("b", "12") },
      );
    });
    const { log, lines: logged } = createRecordingLog();
    const seen: string[] = [];
    reflector = createReflector({ client, resource: CONFIG_MAPS, log });
    reflector.subscribe({
      added: () => {
        throw new Error("a bug");
      },
    });
    reflector.subscribe({ added: () => Promise.reject(new Error("an asynchronous bug")) });
    reflector.subscribe({ added: ({ metadata }) => void seen.push(metadata.name) });
    reflector.start();
    await eventually("b arrives", () => seen.includes("b"));
    await eventually("all four throws are logged", () => logged.length === 4);
    expect(seen).toEqual(["a", "b"]);
    expect(watches()).toHaveLength(1);
    expect(logged.every(({ level, kind }) => level === ERROR_LEVEL && kind === "configmaps")).toBe(true);
  });
});
