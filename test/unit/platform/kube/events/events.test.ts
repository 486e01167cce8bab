import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Event } from "../../../../../src/contracts/kubernetes/resources.ts";
import { type ConnectedKubeClient, createKubeClient } from "../../../../../src/platform/kube/client/http-client.ts";
import {
  createEventRecorder,
  EVENT_BURST_LIMIT,
  EVENT_INTERVAL_MS,
  type EventRecorder,
} from "../../../../../src/platform/kube/events/events.ts";
import { directEffects } from "../../../../../src/platform/process/effects/effects.ts";
import { configMap } from "../../../../builders/config-map.ts";
import { doubleOf } from "../../../../fakes/double-of.ts";
import {
  answerJson,
  answerStatus,
  type Behaviour,
  type MisbehavingApiServer,
  startMisbehavingApiServer,
} from "../../../../fakes/misbehaving-api-server.ts";
import { createRecordingLog, type LogLine, WARN_LEVEL } from "../../../../fakes/recording-log.ts";

const START_MS = Date.UTC(2026, 10, 20);
const CLAIM = configMap("cache", "7");

let server: MisbehavingApiServer;
let client: ConnectedKubeClient;
let recorder: EventRecorder;
let nowMs: number;
let lines: LogLine[];
let events: Map<string, Event>;

/** Keeps Events as an API server does. */
const keepEvents: Behaviour = ({ method, path, body }, response) => {
  const sent = JSON.parse(body) as Event;
  if (method === "POST") {
    const key = `${path}/${sent.metadata.name}`;
    if (events.has(key)) return answerStatus(response, 409, "AlreadyExists", "already exists");
    events.set(key, sent);
    return answerJson(response, 201, sent);
  }
  const event = events.get(path);
  if (event === undefined) return answerStatus(response, 404, "NotFound", "not found");
  events.set(path, { ...event, ...sent });
  answerJson(response, 200, { ...event, ...sent });
};

beforeEach(async () => {
  nowMs = START_MS;
  events = new Map();
  server = await startMisbehavingApiServer(keepEvents);
  client = createKubeClient({ connection: { server: server.server }, effects: directEffects });
  const recording = createRecordingLog();
  lines = recording.lines;
  recorder = createEventRecorder({ client, component: "tidemark-operator", nowMs: () => nowMs, log: recording.log });
});

afterEach(async () => {
  await client.close();
  await server.close();
});

describe("an Event", () => {
  it("names its object, its reporter, and what happened", async () => {
    recorder.record(CLAIM, "Normal", "Extended", "extended from 10Gi to 20Gi");
    await recorder.flush();
    expect([...events.values()]).toEqual([
      expect.objectContaining({
        involvedObject: {
          apiVersion: "v1",
          kind: "ConfigMap",
          namespace: "shop",
          name: "cache",
          uid: "uid-cache",
          resourceVersion: "7",
        },
        type: "Normal",
        reason: "Extended",
        message: "extended from 10Gi to 20Gi",
        count: 1,
        firstTimestamp: "2026-11-20T00:00:00Z",
        lastTimestamp: "2026-11-20T00:00:00Z",
        source: { component: "tidemark-operator" },
      }),
    ]);
    expect([...events.keys()][0]).toMatch(/^\/api\/v1\/namespaces\/shop\/events\/cache\.[0-9a-f]{16}$/);
  });

  it("says what others have brought without anything that a terminal acts on", async () => {
    recorder.record(CLAIM, "Normal", "Extended", "\u001b[2Jall is well");
    await recorder.flush();
    expect([...events.values()].map(({ message }) => message)).toEqual(["\\u001b[2Jall is well"]);
  });

  it("on a cluster-scoped object lives in the namespace default", async () => {
    const layout = { apiVersion: "tidemark.dev/v1alpha1", kind: "FilesystemLayout", metadata: { name: "fs-1" } };
    recorder.record(layout, "Warning", "MembersMissing", "1 of 2 members is missing");
    await recorder.flush();
    expect([...events.keys()][0]).toMatch(/^\/api\/v1\/namespaces\/default\/events\/fs-1\./);
  });

  it("counts up when the same happens again, and is another when anything differs", async () => {
    for (let i = 0; i < 3; i += 1) {
      recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
      await recorder.flush();
      nowMs += 1000;
    }
    recorder.record(CLAIM, "Normal", "Extended", "to 30Gi");
    recorder.record(configMap("other", "1"), "Normal", "Extended", "to 20Gi");
    await recorder.flush();
    expect([...events.values()].map(({ count }) => count)).toEqual([3, 1, 1]);
    expect([...events.values()][0]?.lastTimestamp).toBe("2026-11-20T00:00:02Z");
  });

  it("that repeats after ten minutes is a new one", async () => {
    recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
    await recorder.flush();
    nowMs += 10 * 60_000;
    recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
    await recorder.flush();
    expect([...events.values()].map(({ count }) => count)).toEqual([1, 1]);
  });
});

describe("limits", () => {
  it("send a burst on one object and then one a minute, while other objects have their own", async () => {
    for (let i = 0; i < 100; i += 1) recorder.record(CLAIM, "Warning", "Failed", `attempt ${i}`);
    recorder.record(configMap("other"), "Warning", "Failed", "attempt 0");
    await recorder.flush();
    expect(events.size).toBe(EVENT_BURST_LIMIT + 1);
    nowMs += EVENT_INTERVAL_MS;
    for (let i = 100; i < 200; i += 1) recorder.record(CLAIM, "Warning", "Failed", `attempt ${i}`);
    await recorder.flush();
    expect(events.size).toBe(EVENT_BURST_LIMIT + 2);
  });
});

describe("an API server that fails", () => {
  it("never throws into the caller: it is logged, and later Events are sent", async () => {
    server.behave((_request, response) => answerStatus(response, 403, "Forbidden", "the namespace is terminating"));
    recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
    await recorder.flush();
    expect(lines.map(({ level, reason }) => [level, reason])).toEqual([[WARN_LEVEL, "Extended"]]);
    server.behave(keepEvents);
    recorder.record(CLAIM, "Normal", "Extended", "to 30Gi");
    await recorder.flush();
    expect(events.size).toBe(1);
  });

  it("does not throw on an object that cannot be named in an Event either", async () => {
    // eslint-disable-next-line no-restricted-syntax -- metadata without a name is the case
    const nameless = { apiVersion: "v1", kind: "ConfigMap", metadata: {} } as never;
    expect(() => recorder.record(nameless, "Normal", "Extended", "to 20Gi")).not.toThrow();
    expect(lines).toHaveLength(1);
  });

  it("makes no second Event when the answer to the first was lost", async () => {
    server.behave((request, response) => {
      const destroyed = doubleOf<ServerResponse>("ServerResponse", { end: () => response.destroy() });
      keepEvents(request, doubleOf<ServerResponse>("ServerResponse", { writeHead: () => destroyed }));
    });
    recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
    await recorder.flush();
    server.behave(keepEvents);
    for (let i = 0; i < 2; i += 1) {
      recorder.record(CLAIM, "Normal", "Extended", "to 20Gi");
      await recorder.flush();
    }
    expect([...events.values()].map(({ count }) => count)).toEqual([3]);
  });
});
